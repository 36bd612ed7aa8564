/** Implementation of `saltbridge master`, both for the command and for programs that embed it. */

export { type ConfigCheck, checkServerConfig } from './check-config.ts';
export { type CreateMasterOptions, createMaster } from './create-master.ts';
export { joinMaster } from './join-master.ts';
export type { MasterServer } from './master-with-services.ts';
export { createMasterServer, serve } from './serve.ts';
export type { ServeOptions } from './serve-options.ts';
