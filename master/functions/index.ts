export { createFunctions, type Functions, type InsteadOf } from './functions.ts';
export type { CallContext, MasterFunction } from './master-function.ts';
