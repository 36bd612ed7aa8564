import { existsSync, readFileSync, renameSync, statSync } from 'node:fs';
import path from 'node:path';
import test from 'ava';
import { LogFile } from '../../cli/service/log.ts';
import { temporaryDirectory } from '../helpers/temporary-directory.ts';

test('a log file and its folder are made, and not for everybody to read', (t) => {
  const file = path.join(temporaryDirectory(t), 'log', 'salt', 'master');
  const log = new LogFile(file);
  t.teardown(() => log.close());
  log.write('one\n');
  t.is(readFileSync(file, 'utf8'), 'one\n');
  t.is(statSync(file).mode & 0o007, 0);
  t.is(statSync(path.dirname(file)).mode & 0o007, 0);
});

test('a log file that was moved away is written to until it is reopened', (t) => {
  const file = path.join(temporaryDirectory(t), 'master');
  const log = new LogFile(file);
  t.teardown(() => log.close());
  renameSync(file, `${file}.1`);
  log.write('old\n');
  t.false(existsSync(file));
  log.reopen();
  log.write('new\n');
  t.is(readFileSync(`${file}.1`, 'utf8'), 'old\n');
  t.is(readFileSync(file, 'utf8'), 'new\n');
});

test('lines that the disk does not take are lost, and nothing else', (t) => {
  const log = new LogFile('/dev/full');
  t.teardown(() => log.close());
  t.notThrows(() => log.write('one\n'));
});
