import type { Logger } from 'pino';
import type { MasterConfig } from '#config';
import type { MasterTransport } from '#minion-protocol';
import type { Store } from '#store';
import type { StoreProvider } from './cluster-parts.ts';
import type { MasterExtension } from './extensions/index.ts';

/** Parts of a master that a program may replace. Each has a default. */
export interface ReplaceableParts {
  /** Extensions, which are opened and closed with the master. Default: none. */
  readonly extensions?: readonly MasterExtension[];
  /**
   * Names of built-in extensions that this master is created without. Their options have no effect.
   * Default: none. @internal
   */
  readonly leftOut?: readonly string[];
  /**
   * Logger of the master. Default: if `logLevel` is set, a logger that writes to standard error;
   * otherwise none.
   */
  readonly logger?: Logger;
  /**
   * Transports that serve minions. Default: the transports in the options `transport` and
   * `transport_opts`, or ZeroMQ if neither is set.
   */
  readonly transports?: readonly MasterTransport[];
  /**
   * Store of the master. Default: the embedded store in `saltbridge: state_dir`, or the shared
   * store if `saltbridge: cluster` is set.
   */
  readonly store?: Store;
  /**
   * Opens the store of a cluster member if `saltbridge: cluster` is set. Without a provider, a
   * master with this option cannot start.
   */
  readonly storeProvider?: StoreProvider;
  /**
   * Reads the configuration again, for `Master.reload` and `acl.reload`. Default: reads the
   * directory of `config`. If the master was created from plain options, a reload is rejected.
   */
  readonly readConfig?: () => Promise<MasterConfig>;
  /** Clock: returns the time in milliseconds since 1970. Default: the system clock. */
  readonly now?: () => number;
}

/** Configuration and parts of a master. */
export interface MasterParts extends ReplaceableParts {
  readonly config: MasterConfig;
}

/** Configuration and parts from which the modules of a starting master are created. */
export interface StartedParts extends MasterParts {
  readonly logger: Logger;
  /**
   * Called once, when another process has taken over the store. The master can then store nothing
   * any more.
   */
  readonly onReplaced: (error: Error) => void;
}
