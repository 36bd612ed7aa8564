/** What `saltbridge master` runs, for the command and for programs. */

export { createMasterServer, type MasterServer, type ServeOptions, serve } from './serve.ts';
