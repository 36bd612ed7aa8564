/** Entry point of `saltbridge`: connects the command line to the streams of the process. */
import { readFileSync } from 'node:fs';
import { homedir } from 'node:os';
import path from 'node:path';
import { createInterface, type Interface } from 'node:readline/promises';
import { Writable } from 'node:stream';
import { interruptionSignal } from './interruption.ts';
import type { LocalMaster } from './local-master.ts';
import { runCommandLine } from './program.ts';
import { StandardInput } from './standard-input.ts';

/**
 * Asks a question and returns the answer. The answer is empty if the user presses Ctrl-C or Ctrl-D.
 */
function ask(question: string): Promise<string> {
  return askOn(question, createInterface({ input: process.stdin, output: process.stderr }));
}

/** Asks a question without showing the answer on the terminal. */
async function askSecret(question: string): Promise<string> {
  process.stderr.write(question);
  const output = new Writable({ write: (_chunk, _encoding, done) => done() });
  const answer = await askOn('', createInterface({ input: process.stdin, output, terminal: true }));
  process.stderr.write('\n');
  return answer;
}

async function askOn(question: string, terminal: Interface): Promise<string> {
  const left = new Promise<string>((resolve) => terminal.once('close', () => resolve('')));
  terminal.once('SIGINT', () => terminal.close());
  try {
    return await Promise.race([terminal.question(question), left]);
  } finally {
    terminal.close();
  }
}

/** Ends the command without a message if the reader of a pipe has closed it (`| head`). */
function exitOnClosedPipe(error: NodeJS.ErrnoException): void {
  if (error.code !== 'EPIPE') throw error;
  process.exit(0);
}

/**
 * Returns the access to the master of a configuration directory. Its code is loaded at the first
 * use.
 */
function loadLocalMaster(): LocalMaster {
  let loaded: Promise<LocalMaster> | undefined;
  const load = (): Promise<LocalMaster> => {
    loaded ??= import('./local-master.ts').then(({ createLocalMaster }) => createLocalMaster());
    return loaded;
  };
  return {
    openApi: async (directory) => (await load()).openApi(directory),
    openExtension: async (directory, name) => (await load()).openExtension(directory, name),
    openKeys: async (directory) => (await load()).openKeys(directory),
    openStore: async (directory) => (await load()).openStore(directory),
    openCluster: async (directory) => (await load()).openCluster(directory),
    openSite: async (directory) => (await load()).openSite(directory),
    commandDefaults: async (directory) => (await load()).commandDefaults(directory),
  };
}

const packageFile = new URL('../package.json', import.meta.url);
const { version } = JSON.parse(readFileSync(packageFile, 'utf8'));
process.stdout.on('error', exitOnClosedPipe);
process.exitCode = await runCommandLine(
  process.argv.slice(2),
  {
    stdout: process.stdout,
    stderr: process.stderr,
    ask: process.stdin.isTTY && process.stderr.isTTY ? ask : undefined,
    askSecret: process.stdin.isTTY && process.stderr.isTTY ? askSecret : undefined,
    tokenFile: path.join(homedir(), '.saltbridge_token'),
    input: new StandardInput(() => process.stdin),
    interruption: interruptionSignal,
    ...loadLocalMaster(),
  },
  version,
);
