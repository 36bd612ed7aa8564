import test from 'ava';
import { createLogger } from '../../cli/logger.ts';
import { TextStream } from './run-cli.ts';

test('a pipe gets one JSON object a line, at the level that was asked for', (t) => {
  const stderr = new TextStream();
  const logger = createLogger('warning', stderr);
  logger.warn({ minion: 'a\nb\x1b[2J' }, 'kept');
  logger.info('dropped');
  const [line = '', ...rest] = stderr.text.split('\n');
  t.is(JSON.parse(line).minion, 'a\nb\x1b[2J');
  t.deepEqual(rest, ['']);
});

test('a terminal gets lines for people, which a peer cannot steer', (t) => {
  const stderr = new TextStream({ isTTY: true });
  createLogger('info', stderr).info({ minion: 'a\x1b[2J' }, 'signed in');
  t.regex(stderr.text, /INFO.*signed in\n/);
  t.false(stderr.text.includes('\x1b[2J'));
});
