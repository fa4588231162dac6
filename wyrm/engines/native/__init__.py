"""The engine `native`: graphs and the loop over the data, compiled to machine code."""
