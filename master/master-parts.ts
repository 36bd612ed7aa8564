/** What a program may give to a master. */

import type { Logger } from 'pino';
import type { MasterConfig } from '#config';
import type { MasterTransport } from '#minion-protocol';
import type { Store } from '#store';
import type { StoreProvider } from './cluster-parts.ts';
import type { MasterExtension } from './extensions/index.ts';

/** Parts of a master that a program may replace; each has a default. */
export interface ReplaceableParts {
  /** Extensions, which are opened and closed with the master. Default: none. */
  readonly extensions?: readonly MasterExtension[];
  /**
   * Names of extensions that are left out: their options are not shown. Default: none.
   * @internal
   */
  readonly leftOut?: readonly string[];
  /** Where the master logs. Default: nowhere, or standard error with `logLevel`. */
  readonly logger?: Logger;
  /** Default: ZeroMQ on the configured ports. */
  readonly transports?: readonly MasterTransport[];
  /** Default: the embedded store in `saltbridge: state_dir`. */
  readonly store?: Store;
  /**
   * Opens the store of a member of `saltbridge: cluster`. Default: the start of a master that has
   * this option fails.
   */
  readonly storeProvider?: StoreProvider;
  /**
   * Reads the configuration again, for `Master.reload` and `acl.reload`. Default: the directory
   * of `config`; a master made of plain options refuses.
   */
  readonly readConfig?: () => Promise<MasterConfig>;
  /** Milliseconds since 1970. Default: the system's clock. */
  readonly now?: () => number;
}

/** What a master is made of. */
export interface MasterParts extends ReplaceableParts {
  readonly config: MasterConfig;
}

/** What its modules are opened with. */
export interface StartedParts extends MasterParts {
  readonly logger: Logger;
  /** Told once, when another process has taken the store over: nothing can be kept any more. */
  readonly onReplaced: (error: Error) => void;
}
