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
   * Names of extensions that this master omits. Their options are not listed. Default: none.
   * @internal
   */
  readonly leftOut?: readonly string[];
  /** Logger of the master. Default: none, or standard error if `logLevel` is set. */
  readonly logger?: Logger;
  /** Transports to serve. Default: ZeroMQ on the configured ports. */
  readonly transports?: readonly MasterTransport[];
  /** Store of the master. Default: the embedded store in `saltbridge: state_dir`. */
  readonly store?: Store;
  /**
   * Opens the store of a member of `saltbridge: cluster`. Default: a master with this option fails
   * to start.
   */
  readonly storeProvider?: StoreProvider;
  /**
   * Reads the configuration again, for `Master.reload` and `acl.reload`. Default: reads the
   * directory of `config`. A master created from plain options rejects a reload.
   */
  readonly readConfig?: () => Promise<MasterConfig>;
  /** Clock, in milliseconds since 1970. Default: the system's clock. */
  readonly now?: () => number;
}

/** Configuration and parts of a master. */
export interface MasterParts extends ReplaceableParts {
  readonly config: MasterConfig;
}

/** Inputs for opening the modules of a master. */
export interface StartedParts extends MasterParts {
  readonly logger: Logger;
  /**
   * Called once, when another process has taken over the store. Nothing can be stored after that.
   */
  readonly onReplaced: (error: Error) => void;
}
