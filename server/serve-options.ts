import type { CreateMasterOptions } from './create-master.ts';

/** Options of `serve`: options of a master and of its bridge. */
export interface ServeOptions extends CreateMasterOptions {
  /**
   * Name of the service that is used as the caller of the bridge if a request does not name one.
   * Default: `bridge`.
   */
  readonly service?: string;
}
