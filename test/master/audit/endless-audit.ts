/**
 * A program that appends records to the audit log in the given directory until it is killed, and
 * prints what is on the disk.
 */
import { setImmediate } from 'node:timers/promises';
import { createLogger } from '#master';
import { AuditLog } from '#master/audit/audit-log.ts';
import { createMemoryStore } from '#store';
import { entry } from './helpers.ts';

const audit = await AuditLog.open({
  directory: process.argv[2] ?? '',
  store: createMemoryStore(),
  fileBytes: 100_000,
  keepFiles: 1000,
  digestKey: new Uint8Array(32),
  onFull: () => {},
  now: Date.now,
  log: createLogger('quiet'),
});
for (;;) {
  for (let index = 0; index < 100; index += 1) audit.append(entry(`tag/${index}`));
  process.send?.((await audit.flush()).sequence);
  for (let index = 0; index < 50; index += 1) audit.append(entry(`more/${index}`));
  await setImmediate();
}
