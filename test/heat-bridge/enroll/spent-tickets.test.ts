import { readFileSync, statSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import test from 'ava';
import { UsedTickets } from '../../../heat-bridge/enroll/tickets.ts';
import { temporaryDirectory } from '../../helpers/temporary-directory.ts';

const number = (index: number): string => String(index).padStart(22, '0');
const week = 7 * 86_400_000;

test('a spent ticket is on disk, and known to the next one who opens the file', async (t) => {
  const file = path.join(temporaryDirectory(t), 'spent');
  const first = await UsedTickets.open(file, () => 1000);
  await Promise.all([first.add(number(1), 2000), first.add(number(2), 2000)]);
  t.is(readFileSync(file, 'utf8').split('\n').length, 3);
  t.is(statSync(file).mode & 0o777, 0o600);
  await first.close();
  const second = await UsedTickets.open(file, () => 1000);
  t.deepEqual(
    [1, 2, 3].map((it) => second.has(number(it))),
    [true, true, false],
  );
  await second.close();
});

test('what has been over for a week is dropped, and a torn line with it', async (t) => {
  const file = path.join(temporaryDirectory(t), 'spent');
  const tickets = await UsedTickets.open(file, () => 1000);
  await tickets.add(number(1), 2000);
  await tickets.add(number(2), 5000);
  await tickets.close();
  writeFileSync(file, `${readFileSync(file, 'utf8')}${number(3).slice(0, 9)}`);
  const later = await UsedTickets.open(file, () => 2000 + week);
  t.deepEqual(
    [1, 2].map((it) => later.has(number(it))),
    [false, true],
  );
  t.is(readFileSync(file, 'utf8'), `${number(2)} ${5000 + week}\n`);
  await later.close();
});
