import { Writable } from 'node:stream';
import test from 'ava';
import { createLogger, type LogLevel } from '../../master/index.ts';

/** What a logger of this level writes, one object a line. */
function logged(level: LogLevel, write: (logger: ReturnType<typeof createLogger>) => void): string {
  let text = '';
  const stream = new Writable({
    write(chunk, _encoding, done) {
      text += String(chunk);
      done();
    },
  });
  write(createLogger(level, stream));
  return text;
}

const lowest: readonly (readonly [LogLevel, string])[] = [
  ['quiet', 'silent'],
  ['critical', 'fatal'],
  ['error', 'error'],
  ['warning', 'warn'],
  ['info', 'info'],
  ['profile', 'info'],
  ['debug', 'debug'],
  ['trace', 'trace'],
  ['garbage', 'trace'],
  ['all', 'trace'],
];

for (const [level, expected] of lowest) {
  test(`Salt's level ${level} is pino's ${expected}`, (t) => {
    t.is(createLogger(level).level, expected);
  });
}

test('secrets are redacted wherever they stand', (t) => {
  const text = logged('info', (logger) => {
    logger.info({ token: 'planted-1', load: { arg: ['planted-2'], tok: 'planted-3' } }, 'x');
    logger.info({ config: { keyPass: 'planted-4' }, pillar: { db: 'planted-5' } }, 'x');
  });
  t.notRegex(text, /planted/);
  t.regex(text, /redacted/);
});
