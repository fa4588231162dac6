"""Attributes of modules, optimizers and compiled functions in other libraries, and NumPy functions that take no nodes,
each with what to use instead.
"""

from __future__ import annotations

from wyrm.support.foreign_names.nodes import (
    CLONE,
    CPU,
    DATA_DEPENDENT,
    FIT,
    IMMUTABLE,
    NO_FOURIER,
    NO_HOOKS,
    ON_VALUES,
    each,
)

# ruff: noqa: E501  # one line for names and their answer


MODULE = each(
    {
        "zero_grad": "use loss.zero_gradient() or optimizer.zero_gradient()",
        "forward": "call the module: model(x)",
        "cuda cpu to device to_empty half bfloat16": CPU,
        "float double type": "give layers their float type in __init__: Linear(4, 3, dtype=np.float64)",
        "requires_grad_": "give the optimizer only the parameters to train",
        "register_buffer": "set an attribute: self.name = wy.Buffer(value)",
        "register_parameter": "set an attribute: self.name = wy.Parameter(value)",
        "add_module register_module": "set an attribute: self.name = module",
        "children named_children named_modules": "use model.modules()",
        "buffers": "use model.named_buffers()",
        "get_parameter": "use dict(model.named_parameters())[name]",
        "get_submodule": "use the attributes of the model, as in model.layers[0]",
        "apply": "loop over model.modules()",
        "register_forward_hook register_forward_pre_hook register_full_backward_hook register_backward_hook": NO_HOOKS,
        "compile": "compile a graph: wy.compile(model(x)), or for training wy.compile(loss, optimizer)",
        "fit train_on_batch": FIT,
        "evaluate": "use wy.compile(loss).evaluate({x: column}, batch_size=32)",
        "predict": "use wy.compile(model(x))({x: data}), or model(x).forward()",
        "summary": "use print(wy.summary(model))",
        "get_weights": "use model.state_dict()",
        "set_weights": "use model.load_state_dict(arrays)",
        "save_weights": "use model.save(path)",
        "load_weights": "use model.load(path)",
        "trainable_variables trainable_weights weights variables": "use model.parameters()",
        "generate": "use wy.nn.generate(model, prompt, max_new_tokens)",
        "init": "a module draws its parameters in __init__; wy.nn.seed(number) makes that reproducible",
        "share_memory": "leave it out: threads already share parameters",
    }
)
OPTIMIZER = each(
    {
        "zero_grad": "use optimizer.zero_gradient()",
        "param_groups": "use optimizer.groups",
        "add_param_group": "give the groups to the constructor, as in SGD([{'parameters': first}, {'parameters': second}], 0.1)",
        "state": "use optimizer.state_dict()",
        "minimize apply_gradients": "call loss.backward() and optimizer.step(), or use wy.compile(loss, optimizer)",
        "init": "leave it out: an optimizer creates its state itself",
    }
)
PROGRAM = each(
    {
        "fit train": "use wy.train.fit(program, {x: column}, epochs=10, batch_size=32)",
        "train_step train_on_batch": "call the program with a batch: program({x: array})",
        "step": "call the program with a batch, program({x: array}): with an optimizer each call is a step",
        "history": "wy.train.fit returns the history",
        "run forward predict": "call the program: program({x: array})",
        "lower as_text": "use program.stages(), program.source or program.llvm",
    }
)


# NumPy functions that do not accept nodes.
NUMPY_FUNCTIONS = each(
    {
        "matrix_rank": "use np.linalg.matrix_rank(x.forward()), or count the singular values, (wy.linalg.svdvals(x) > 1e-6).sum()",
        "tensorinv tensorsolve": "use x.reshape(shape) and wy.linalg.inv or wy.linalg.solve",
        "unique unique_all unique_counts unique_inverse unique_values nonzero flatnonzero argwhere intersect1d union1d setdiff1d setxor1d delete insert trim_zeros": (
            DATA_DEPENDENT
        ),
        "lexsort sort_complex": "use np.argsort(x, axis)",
        "around": "use np.round(x, decimals)",
        "isin": "use (x[..., None] == y).any(-1)",
        "nancumsum": "use np.cumsum(wy.where(np.isnan(x), 0.0, x), axis)",
        "nancumprod": "use np.cumprod(wy.where(np.isnan(x), 1.0, x), axis)",
        "nanargmax": "use np.argmax(wy.where(np.isnan(x), -np.inf, x), axis)",
        "nanargmin": "use np.argmin(wy.where(np.isnan(x), np.inf, x), axis)",
        "resize": "use np.tile(x, repeats) and x.reshape(shape)",
        "copy": CLONE,
        "empty_like": "use np.zeros_like(x)",
        "histogram2d histogramdd histogram_bin_edges polyfit unwrap frexp ldexp nextafter spacing gcd lcm": ON_VALUES,
        "polyval": "use wy.vander(x, n) @ coefficients",
        "put place copyto put_along_axis putmask fill_diagonal": IMMUTABLE,
        "choose": "use np.where(mask, x, y), or wy.stack([x, y])[i] for a number i",
        "piecewise": "use np.select(masks, [f(x), g(x)])",
        "apply_along_axis apply_over_axes": "use wy.vmap(f)",
        "ix_": "use x[rows[:, None], columns]",
        "save savez savetxt savez_compressed": "use np.save(path, x.forward())",
        "fft ifft rfft irfft fft2 ifft2 fftn ifftn rfft2 irfft2 hfft ihfft fftshift ifftshift": NO_FOURIER,
    }
)
