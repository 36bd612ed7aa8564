import type { CreateMasterOptions } from './create-master.ts';

/** Options of `serve`: options of a master and of its bridge. */
export interface ServeOptions extends CreateMasterOptions {
  /**
   * Name of the service that is the caller of bridge requests without a caller. Default: `bridge`.
   */
  readonly service?: string;
}
