/** Many connections that are kept open without completing a message, on each transport. */

import { execFile } from 'node:child_process';
import path from 'node:path';
import { promisify } from 'node:util';
import test from 'ava';

for (const transport of ['zeromq', 'tcp', 'ws']) {
  test.serial(
    `1,000 of 2,000 half-open connections over ${transport} stay, memory is bounded, and others are served`,
    async (t) => {
      // The master runs in a process of its own, because the other test files share the memory of
      // this one.
      const crowd = path.join(import.meta.dirname, '..', 'helpers', 'idle-crowd.ts');
      const { stdout } = await promisify(execFile)(process.execPath, [crowd, transport]);
      const { refusals, open, growth, answered } = JSON.parse(stdout);
      t.deepEqual(Object.keys(refusals), ['too-many-from-address']);
      t.true(open <= 1000, `${open} are open`);
      t.is(answered, 1);
      // Both ends of each connection need a descriptor. The incomplete messages declare 500 MB in
      // total.
      t.true(growth < 100 * 1024 * 1024, `${growth} bytes more than before`);
    },
  );
}
