import type { Writable } from 'node:stream';
import type { ExtensionClient } from '../client/index.ts';
import type { MasterApi, OfflineKeys } from '../master/index.ts';
import type { StandardInput } from './standard-input.ts';
import type { StoreAccess } from './store-access.ts';

/** A stream that may be a terminal. */
export type OutputStream = Writable & { readonly isTTY?: boolean };

/** The world as a command sees it; tests give another one. */
export interface CommandContext {
  readonly stdout: OutputStream;
  /** For messages, questions and progress: never for what a command was asked for. */
  readonly stderr: OutputStream;
  /** Asks a person; `undefined` where there is none. */
  readonly ask: ((question: string) => Promise<string>) | undefined;
  /** The same, and shows nothing of the answer. */
  readonly askSecret: ((question: string) => Promise<string>) | undefined;
  /** Where the token of whoever uses the command line is kept. */
  readonly tokenFile: string;
  /** Standard input, whatever it is. */
  readonly input: Pick<StandardInput, 'readAll' | 'readLine'>;
  /** Fires at the first Ctrl-C after the call. */
  readonly interruption: () => AbortSignal;
  /** The running master that uses this configuration directory. */
  readonly openApi: (configDirectory: string) => Promise<MasterApi>;
  /** An extension of that master, such as `bridge`. */
  readonly openExtension: (configDirectory: string, extension: string) => Promise<ExtensionClient>;
  /** The keys of that master, or, where none runs, those in its PKI directory. */
  readonly openKeys: (configDirectory: string) => Promise<OfflineKeys>;
  /** The store of that master, whether it runs or not. */
  readonly openStore: (configDirectory: string) => Promise<StoreAccess>;
  /** What the process ends with if nothing fails. Default 0. */
  readonly setExitCode: (code: number) => void;
}
