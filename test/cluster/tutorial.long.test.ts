/** Follows docs/cluster/tutorial.md with a NATS server, in an empty folder. */

import { spawn } from 'node:child_process';
import { mkdirSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { text } from 'node:stream/consumers';
import { freePort } from '../../bench/free-port.ts';
import { natsServerProgram } from '../../bench/nats-cluster.ts';
import { blocksRunBy, codeBlocks, root } from '../helpers/markdown.ts';
import { natsTest } from '../helpers/nats-server.ts';
import { temporaryDirectory } from '../helpers/temporary-directory.ts';

const page = 'docs/cluster/tutorial.md';

natsTest('the tutorial makes a cluster, and one of two members refuses a job', async (t) => {
  t.timeout(300_000);
  const directory = temporaryDirectory(t);
  const places = new Map<string, string>([['/tmp/demo', directory]]);
  for (const port of ['14222', '14505', '14506', '14605', '14606']) {
    places.set(port, String(await freePort()));
  }
  const placed = (source: string): string =>
    source.replaceAll(/\/tmp\/demo|\b14\d{3}\b/g, (found) => places.get(found) ?? found);
  for (const { file, language, text: content } of codeBlocks(page)) {
    if (language !== 'yaml' || file === undefined) continue;
    mkdirSync(path.join(directory, path.dirname(file)));
    writeFileSync(path.join(directory, file), placed(content));
  }
  const blocks = blocksRunBy('test/cluster/tutorial.long.test.ts', page);
  const script = blocks.map((block) => placed(block.text)).join('\n');
  const shell = spawn('bash', ['-c', script], {
    cwd: directory,
    detached: true,
    env: {
      ...process.env,
      PATH: [
        `${root}bin`,
        path.dirname(process.execPath),
        path.dirname(natsServerProgram),
        process.env.PATH,
      ].join(':'),
    },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  const group = -(shell.pid ?? process.pid);
  t.teardown(() => {
    if (shell.exitCode === null) process.kill(group, 'SIGKILL');
  });
  const ended = new Promise<number | null>((resolve) => shell.once('exit', resolve));
  const outputs = Promise.all([text(shell.stdout), text(shell.stderr)]);
  t.not(await ended, 0);
  process.kill(group, 'SIGKILL');
  const [output, errors] = await outputs;
  t.log(output, errors);
  t.regex(output, /member +a: alive/);
  t.regex(output, /member +b: alive/);
  t.regex(output, /web1:\s+True/);
  t.regex(output, /alone +too few members are alive/);
  t.regex(errors, /only 1 of 2 are running/);
});
