import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import test, { type ExecutionContext } from 'ava';
import { startDaemon } from '../../cli/commands/master.ts';
import { CommandError } from '../../cli/errors.ts';

/** Answers `status` on the socket that it is told, as a master does. */
const answeringProgram = `
import { createServer } from 'node:http';
console.log('started');
createServer((request, response) => {
  response.end(JSON.stringify({ result: { pid: process.pid } }));
}).listen(process.argv[2]);
`;

interface Place {
  readonly program: string;
  readonly socket: string;
  readonly logFile: string;
}

async function makePlace(t: ExecutionContext, source: string): Promise<Place> {
  const folder = await mkdtemp(path.join(tmpdir(), 'saltbridge-'));
  t.teardown(() => rm(folder, { recursive: true }));
  const program = path.join(folder, 'program.mjs');
  await writeFile(program, source);
  return {
    program,
    socket: path.join(folder, 'socket'),
    logFile: path.join(folder, 'log', 'master'),
  };
}

test('a daemon is there when its own socket answers, and writes to its log', async (t) => {
  const { program, socket, logFile } = await makePlace(t, answeringProgram);
  const pid = await startDaemon([program, socket], { socket, logFile });
  t.teardown(() => process.kill(pid));
  t.not(pid, process.pid);
  t.is(await readFile(logFile, 'utf8'), 'started\n');
});

test('a daemon that ends early is told at once, with its exit code and log', async (t) => {
  const { program, socket, logFile } = await makePlace(t, 'process.exit(64);');
  const error = await t.throwsAsync(startDaemon([program], { socket, logFile }), {
    instanceOf: CommandError,
    code: 'ERR_MASTER_NOT_READY',
  });
  t.is(error?.message, `the master did not start: it ended with 64; see ${logFile}`);
});

test('another master on the same socket is not taken for the one that was started', async (t) => {
  const { program, socket, logFile } = await makePlace(t, answeringProgram);
  const other = await startDaemon([program, socket], { socket, logFile });
  t.teardown(() => process.kill(other));
  await t.throwsAsync(startDaemon([program, socket], { socket, logFile }), {
    code: 'ERR_MASTER_NOT_READY',
  });
});
