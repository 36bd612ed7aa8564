import { Readable, Writable } from 'node:stream';
import { type CommandDefaults, saltDefaults } from '#cli/command-defaults.ts';
import type { CommandContext } from '#cli/context.ts';
import { createLocalMaster } from '#cli/local-master.ts';
import { runCommandLine } from '#cli/program.ts';
import { StandardInput } from '#cli/standard-input.ts';
import type { MasterApi, MasterStatus } from '#master';

/** A stream that stores the written text. */
export class TextStream extends Writable {
  readonly isTTY: boolean;
  text = '';

  constructor({ isTTY = false }: { readonly isTTY?: boolean } = {}) {
    super();
    this.isTTY = isTTY;
  }

  override _write(chunk: Buffer, _encoding: string, done: (error?: Error) => void): void {
    this.text += chunk.toString('utf8');
    done();
  }
}

/** Parts of a master that a test provides. A command that uses any other part fails. */
export interface FakeMaster {
  readonly keys?: Partial<MasterApi['keys']>;
  readonly jobs?: Partial<MasterApi['jobs']>;
  readonly events?: Partial<MasterApi['events']>;
  readonly logins?: Partial<MasterApi['logins']>;
  readonly asUser?: MasterApi['asUser'];
  readonly reactions?: Partial<MasterApi['reactions']>;
  readonly pillar?: Partial<MasterApi['pillar']>;
  readonly runners?: Partial<MasterApi['runners']>;
  readonly wheel?: Partial<MasterApi['runners']>;
  readonly store?: Partial<MasterApi['store']>;
  readonly status?: () => Promise<MasterStatus>;
}

/**
 * Environment in which a command runs. By default there is no terminal, no answers to questions,
 * and no Ctrl-C.
 */
export interface CliOptions {
  readonly master?: FakeMaster;
  readonly stdout?: Writable & { readonly text: string };
  readonly stderr?: TextStream;
  readonly ask?: (question: string) => Promise<string>;
  readonly askSecret?: (question: string) => Promise<string>;
  /** Path of the token file. Default: no token can be read or written. */
  readonly tokenFile?: string;
  /** Content of standard input. Default: empty. */
  readonly input?: string;
  readonly interruption?: AbortSignal;
  readonly openApi?: CommandContext['openApi'];
  readonly openExtension?: CommandContext['openExtension'];
  readonly openStore?: CommandContext['openStore'];
  readonly openKeys?: CommandContext['openKeys'];
  /** Defaults for commands from the configuration. Default: none. */
  readonly commandDefaults?: Partial<CommandDefaults>;
}

/** Output and exit code of a command. */
export interface CliOutcome {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

function unexpected(): never {
  throw new TypeError('the command called what the test did not foresee');
}

const noFunctions: MasterApi['runners'] = { run: unexpected, start: unexpected, docs: unexpected };

function completeApi(master: FakeMaster): MasterApi {
  const { keys, jobs, events, logins, reactions, pillar, runners, wheel, store, status, asUser } =
    master;
  return {
    keys: {
      list: unexpected,
      local: unexpected,
      accept: unexpected,
      reject: unexpected,
      delete: unexpected,
      create: unexpected,
      unpin: unexpected,
      ...keys,
    },
    jobs: {
      publish: unexpected,
      run: unexpected,
      batch: unexpected,
      follow: unexpected,
      list: unexpected,
      show: unexpected,
      active: unexpected,
      plan: unexpected,
      ...jobs,
    },
    cluster: {
      status: unexpected,
      ticket: unexpected,
      remove: unexpected,
      drain: unexpected,
      resume: unexpected,
    },
    events: { subscribe: unexpected, fire: unexpected, denials: unexpected, ...events },
    pillar: {
      show: unexpected,
      explain: unexpected,
      diff: unexpected,
      inputs: unexpected,
      ...pillar,
    },
    acl: {
      explain: unexpected,
      learn: unexpected,
      replay: unexpected,
      reload: unexpected,
      forget: unexpected,
    },
    audit: { flush: unexpected },
    logins: {
      login: unexpected,
      identify: unexpected,
      logout: unexpected,
      list: unexpected,
      revoke: unexpected,
      follow: unexpected,
      ...logins,
    },
    asUser: asUser ?? unexpected,
    reactions: { list: unexpected, show: unexpected, runs: unexpected, ...reactions },
    presence: unexpected,
    minions: unexpected,
    metrics: unexpected,
    runners: { ...noFunctions, ...runners },
    wheel: { ...noFunctions, ...wheel },
    store: { backup: unexpected, ...store },
    status: status ?? unexpected,
  };
}

/** Runs one command line with a master that the test provides. */
export async function runCli(argv: string[], options: CliOptions = {}): Promise<CliOutcome> {
  const stdout = options.stdout ?? new TextStream();
  const stderr = options.stderr ?? new TextStream();
  const api = completeApi(options.master ?? {});
  const interruption = options.interruption ?? new AbortController().signal;
  const input = Readable.from([Buffer.from(options.input ?? '')]);
  const code = await runCommandLine(
    argv,
    {
      stdout,
      stderr,
      ask: options.ask,
      askSecret: options.askSecret,
      tokenFile: options.tokenFile ?? '/nonexistent/token',
      input: new StandardInput(() => input),
      interruption: () => interruption,
      openApi: options.openApi ?? (async () => api),
      openExtension: options.openExtension ?? unexpected,
      openStore: options.openStore ?? createLocalMaster().openStore,
      openCluster: createLocalMaster().openCluster,
      openSite: createLocalMaster().openSite,
      commandDefaults: async () => ({ ...saltDefaults, ...options.commandDefaults }),
      openKeys: options.openKeys ?? (async () => ({ keys: api.keys, close: async () => {} })),
    },
    '1.2.3',
  );
  return { code, stdout: stdout.text, stderr: stderr.text };
}

/** Yields the given values. */
export async function* streamOf<T>(...values: readonly T[]): AsyncGenerator<T, void, void> {
  yield* values;
}
