import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { promisify } from 'node:util';
import test from 'ava';
import { STREAMS } from '../helpers/stream-masters.ts';

for (const stream of STREAMS) {
  test.serial(
    `2,000 connections of every kind over ${stream} leave no memory behind`,
    async (t) => {
      // In a process of its own: here the other test files share the memory.
      const storm = join(import.meta.dirname, '..', 'helpers', 'connection-storm.js');
      const { stdout } = await promisify(execFile)(process.execPath, [
        '--expose-gc',
        storm,
        stream,
        '4000',
      ]);
      const { connections, growth } = JSON.parse(stdout);
      t.is(connections, 2000);
      t.true(growth < 30 * 1024 * 1024, `${growth} bytes more than before`);
    },
  );
}
