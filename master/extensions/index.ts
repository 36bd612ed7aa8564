export { coreMethods } from './core-methods.ts';
export { decorate } from './decorate.ts';
export type {
  ExtensionHost,
  MasterExtension,
  OpenExtension,
  TokenHolder,
  TokenHolders,
} from './extension.ts';
export type { HttpServerContext } from './http-routes.ts';
export { type Contributions, masterServices } from './master-services.ts';
export { createMemoryFiles, type MemoryFiles, relativePath } from './memory-files.ts';
export { Extensions } from './open-extensions.ts';
export { defineService, type ServiceKey, Services } from './services.ts';
export type { SharedArea, StateArea, StateChange, StateOperation } from './state-area.ts';
export { withToken } from './with-token.ts';
