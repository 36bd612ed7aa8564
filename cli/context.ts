import type { Writable } from 'node:stream';
import type { MasterApi } from '../master/index.ts';

/** A stream that may be a terminal. */
export type OutputStream = Writable & { readonly isTTY?: boolean };

/** The world as a command sees it; tests give another one. */
export interface CommandContext {
  readonly stdout: OutputStream;
  /** For messages, questions and progress: never for what a command was asked for. */
  readonly stderr: OutputStream;
  /** Asks a person; `undefined` where there is none. */
  readonly ask: ((question: string) => Promise<string>) | undefined;
  /** Fires at the first Ctrl-C after the call. */
  readonly interruption: () => AbortSignal;
  /** The running master that uses this configuration directory. */
  readonly openApi: (configDirectory: string) => Promise<MasterApi>;
  /** What the process ends with if nothing fails. Default 0. */
  readonly setExitCode: (code: number) => void;
}
