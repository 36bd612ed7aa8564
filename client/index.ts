/** `saltbridge/client`: the master's interface from another process. */

export { RemoteError } from './errors.ts';
export { connectMaster, type MasterClientOptions } from './master-client.ts';
