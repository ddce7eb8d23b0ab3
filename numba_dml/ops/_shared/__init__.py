"""What operators share: `function` is for all; others have parameters, rules and a lowering for one kind of them."""
