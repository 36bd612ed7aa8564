/** What a program may give to a master. */

import type { Logger } from 'pino';
import type { MasterConfig } from '#config';
import type { MasterTransport } from '#minion-protocol';
import type { FileServerOptions } from '#salt/files/index.ts';
import type { ExtPillar } from '#salt/pillar/index.ts';
import type { Store, TransactionLog } from '#store';
import type { PillarProvider } from './api/index.ts';
import type { MasterExtension, TopsProvider } from './requests/index.ts';

/** Parts of a master that a program may replace; each has a default. */
export interface ReplaceableParts {
  /** Each minion's pillar. Default: that of the files below `pillar_roots`. */
  readonly pillar?: PillarProvider;
  /** Put over that pillar, in this order. Default: none. */
  readonly extPillar?: readonly ExtPillar[];
  /** What each minion's highstate has besides its top file. Default: nothing. */
  readonly tops?: TopsProvider;
  /** What is opened and closed with it, and keeps state in its store. Default: none. */
  readonly extensions?: readonly MasterExtension[];
  /** Where files come from. Default: `file_roots`. */
  readonly fileserver?: FileServerOptions;
  /** Where the master logs. Default: nowhere, or standard error with `logLevel`. */
  readonly logger?: Logger;
  /** Default: ZeroMQ on the configured ports. */
  readonly transports?: readonly MasterTransport[];
  /** Default: the embedded store in `saltbridge: state_dir`. */
  readonly store?: Store;
  /**
   * Connects to the log of `saltbridge: cluster`. Default: to that of its NATS servers.
   * @internal
   */
  readonly clusterLog?: () => Promise<TransactionLog>;
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
