export type { FunctionCaller } from './function-caller.ts';
export { createFunctions, type Functions, type InsteadOf } from './functions.ts';
export {
  type CallContext,
  type FunctionTable,
  type MasterFunction,
  masterFunction,
  refused,
  requireLocalCaller,
  withOutputter,
} from './master-function.ts';
export {
  anything,
  count,
  flag,
  ignored,
  map,
  names,
  optional,
  required,
  seconds,
  target,
  text,
} from './parameters.ts';
