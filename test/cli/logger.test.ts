import { readFileSync } from 'node:fs';
import path from 'node:path';
import test, { type ExecutionContext } from 'ava';
import type { Logger } from 'pino';
import { createLogger, type MasterLog, openMasterLog } from '../../cli/service/log.ts';
import { type LogLevel, type MasterOptions, resolveMasterConfig } from '../../master/index.ts';
import { temporaryDirectory } from '../helpers/temporary-directory.ts';
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

interface OpenLog {
  readonly log: MasterLog;
  /** What each has been told. */
  readonly lines: () => { readonly console: string[]; readonly file: string[] };
}

function openLog(t: ExecutionContext, levels: Partial<MasterOptions>, level?: LogLevel): OpenLog {
  const file = path.join(temporaryDirectory(t), 'master');
  const stderr = new TextStream();
  const config = resolveMasterConfig({ logFile: file, ...levels });
  const log = openMasterLog(config, { stderr, level, owner: undefined });
  t.teardown(() => log.close());
  const lines = (): ReturnType<OpenLog['lines']> => ({
    console: messagesIn(stderr.text),
    file: messagesIn(readFileSync(file, 'utf8')),
  });
  return { log, lines };
}

function messagesIn(text: string): string[] {
  const lines = text.split('\n').filter((line) => line !== '');
  return lines.map((line) => JSON.parse(line).msg);
}

function writeEach(logger: Logger): void {
  logger.debug('debug');
  logger.info('info');
  logger.warn('warning');
}

test('console and log file have levels of their own', (t) => {
  const { log, lines } = openLog(t, { logLevel: 'warning', logLevelLogfile: 'debug' });
  writeEach(log.logger);
  t.deepEqual(lines(), { console: ['warning'], file: ['debug', 'info', 'warning'] });
});

test('the log file has the level of the console unless it has its own', (t) => {
  const { log, lines } = openLog(t, { logLevel: 'warning' }, 'info');
  writeEach(log.logger);
  t.deepEqual(lines(), { console: ['info', 'warning'], file: ['info', 'warning'] });
});

test('levels can change, also for loggers that were derived before', (t) => {
  const { log, lines } = openLog(t, { logLevel: 'quiet', logLevelLogfile: 'warning' });
  const derived = log.logger.child({ component: 'a' }).child({ minion: 'b' });
  log.setLevels(resolveMasterConfig({ logLevel: 'info', logLevelLogfile: 'debug' }));
  writeEach(derived);
  t.deepEqual(lines(), { console: ['info', 'warning'], file: ['debug', 'info', 'warning'] });
});

test('a log file that cannot be opened is told on the console, or refused without one', (t) => {
  const config = resolveMasterConfig({ logFile: '/dev/null/master' });
  const stderr = new TextStream();
  const { logger } = openMasterLog(config, { stderr, level: undefined, owner: undefined });
  logger.warn('goes on');
  t.deepEqual(messagesIn(stderr.text), ['log_file could not be opened', 'goes on']);
  const alone = { stderr: undefined, level: undefined, owner: undefined };
  t.throws(() => openMasterLog(config, alone), { code: 'EEXIST' });
});

test('an address is no log file', (t) => {
  const config = resolveMasterConfig({ logFile: 'file:///dev/log' });
  const stderr = new TextStream();
  openMasterLog(config, { stderr, level: undefined, owner: undefined }).logger.warn('goes on');
  t.deepEqual(messagesIn(stderr.text), ['goes on']);
});
