import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { promisify } from 'node:util';
import test from 'ava';
import { effort } from '../helpers/effort.ts';
import { allowedGrowth } from '../helpers/measured-process.ts';
import { STREAMS } from '../helpers/stream-masters.ts';

for (const stream of STREAMS) {
  test.serial(
    `2,000 connections of every kind over ${stream} leave no memory allocated`,
    async (t) => {
      t.timeout(60_000 * effort);
      // The master runs in a process of its own, because the other test files share the memory of
      // this one.
      const storm = join(import.meta.dirname, '..', 'helpers', 'connection-storm.ts');
      const { stdout } = await promisify(execFile)(process.execPath, [
        '--expose-gc',
        storm,
        stream,
        `${2000 * effort}`,
      ]);
      const { connections, growth } = JSON.parse(stdout);
      t.is(connections, 2000 * effort);
      t.true(growth < allowedGrowth, `${growth} bytes more than before`);
    },
  );
}
