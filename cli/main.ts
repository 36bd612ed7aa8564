/** The process around the command line: its streams, its terminal, its end. */
import { readFileSync } from 'node:fs';
import { createInterface } from 'node:readline/promises';
import { openLocalApi, openLocalKeys } from './connect.ts';
import { run } from './program.ts';
import { interruptionSignal } from './signals.ts';
import { openLocalStore } from './store-access.ts';

/** The answer; empty when the person leaves with Ctrl-C or Ctrl-D. */
async function ask(question: string): Promise<string> {
  const terminal = createInterface({ input: process.stdin, output: process.stderr });
  const left = new Promise<string>((resolve) => terminal.once('close', () => resolve('')));
  terminal.once('SIGINT', () => terminal.close());
  try {
    return await Promise.race([terminal.question(question), left]);
  } finally {
    terminal.close();
  }
}

/** The next line; the question stands on standard output already. */
async function readLine(): Promise<string | undefined> {
  const lines = createInterface({ input: process.stdin });
  lines.once('SIGINT', () => lines.close());
  try {
    const { value, done } = await lines[Symbol.asyncIterator]().next();
    return done ? undefined : value;
  } finally {
    lines.close();
  }
}

/** A reader that has seen enough (`| head`) ends the command without a word. */
function endQuietly(error: NodeJS.ErrnoException): void {
  if (error.code !== 'EPIPE') throw error;
  process.exit(0);
}

const packageFile = new URL('../../package.json', import.meta.url);
const { version } = JSON.parse(readFileSync(packageFile, 'utf8'));
process.stdout.on('error', endQuietly);
process.exitCode = await run(
  process.argv.slice(2),
  {
    stdout: process.stdout,
    stderr: process.stderr,
    ask: process.stdin.isTTY && process.stderr.isTTY ? ask : undefined,
    readLine,
    interruption: interruptionSignal,
    openApi: openLocalApi,
    openKeys: openLocalKeys,
    openStore: openLocalStore,
  },
  version,
);
