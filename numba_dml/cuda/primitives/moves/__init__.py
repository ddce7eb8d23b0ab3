"""The pieces of gathers and scatters.

Their kernels have these arguments in common, of which each has what it needs, mostly in this order:

- `data`: the address of the first element of a gather's input, or of a scatter's output.
- `old`: that of what is there before a scatter, maybe the output itself.
- `index`: that of the packed indices.
- `packed`: that of a gather's packed output, or of a scatter's packed updates.
- `plan`: the plan, see `primitives.plan`.
- `record`: the address where a bad index is recorded.
- `launch`: the number of this launch, -1: the indices have been looked at.
- `unless`: write nothing if the launch with this number has recorded a bad index.
- `claims`, `pairs`, `entries`: addresses of the claims of places, of pairs of points and places, of updates in bins.
- `points`, `units`, `bins`: how many there are. `share`: how many points or units a block handles.
- `nowhere`: the key of points that are dropped, behind all others.
"""
