import type { CreateMasterOptions } from './create-master.ts';

/** Options of `serve`: options of a master and of its bridge. */
export interface ServeOptions extends CreateMasterOptions {
  /**
   * Name of the service that counts as the caller if a request to the bridge names no caller.
   * Default: `bridge`.
   */
  readonly service?: string;
}
