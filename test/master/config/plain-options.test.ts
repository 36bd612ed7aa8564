/** Tests of options in the form in which a program passes them to `createMaster`. */

import test from 'ava';
import { pino } from 'pino';
import { ConfigError, resolveMasterConfig } from '#config';
import { type CreateMasterOptions, createMaster } from '#server';
import { temporaryDirectory } from '../../helpers/temporary-directory.ts';

/** Returns the error for options that are rejected before anything is opened. */
function refusalOf(options: object): { readonly code: string; readonly key: string } | undefined {
  try {
    createMaster(options as CreateMasterOptions); // wrong on purpose
  } catch (error) {
    if (error instanceof ConfigError) return { code: error.code, key: error.key };
  }
  return undefined;
}

test("plain options give the same configuration as Salt's names", (t) => {
  const { config } = createMaster({
    rootDir: '/srv/one',
    id: 'one',
    requestPort: 4606,
    cacheDir: '/cache',
    socketDir: '/run',
    keyBits: 4096,
    timeoutSeconds: 7,
    requestTtlSeconds: 60,
    limits: { burst: 10 },
    timeout: undefined,
  } as CreateMasterOptions);
  const expected = resolveMasterConfig({
    rootDir: '/srv/one',
    id: 'one',
    retPort: 4606,
    cachedir: '/cache',
    sockDir: '/run',
    keysize: 4096,
    timeout: 7,
    requestServerTtl: 60,
    limits: { burst: 10 },
  });
  t.deepEqual(config, expected);
});

test('an option of a wrong type is refused under the name that the program used', (t) => {
  t.deepEqual(refusalOf({ requestPort: 'high' }), { code: 'ERR_OPTION_TYPE', key: 'requestPort' });
  t.deepEqual(refusalOf({ autoAccept: 1 }), { code: 'ERR_OPTION_TYPE', key: 'autoAccept' });
});

test("an option in Salt's spelling is refused, and the error names the option of programs", (t) => {
  const error = t.throws(() => createMaster({ retPort: 1 } as CreateMasterOptions), {
    instanceOf: ConfigError,
  });
  t.is(error.code, 'ERR_OPTION_RENAMED');
  t.regex(error.message, /requestPort/);
  t.deepEqual(refusalOf({ user: 'salt' }), { code: 'ERR_OPTION_RENAMED', key: 'user' });
  t.deepEqual(refusalOf({ noSuchThing: 1 }), { code: 'ERR_OPTION_UNKNOWN', key: 'noSuchThing' });
});

test('a plain option beside a complete configuration is refused', (t) => {
  const config = resolveMasterConfig();
  t.deepEqual(refusalOf({ config, autoAccept: true }), {
    code: 'ERR_OPTION_CONFLICT',
    key: 'autoAccept',
  });
  t.notThrows(() => createMaster({ config, logLevel: 'error' }));
});

test('a running master accepts plain options, and refuses to reload files that it did not use', async (t) => {
  const options = {
    rootDir: temporaryDirectory(t),
    interface: '127.0.0.1',
    publishPort: 0,
    requestPort: 0,
  };
  const master = createMaster({ ...options, timeoutSeconds: 7 });
  t.teardown(() => master.close());
  await master.start();
  const { applied } = await master.reload({ ...options, timeoutSeconds: 8 });
  t.deepEqual(applied, ['timeout']);
  t.is(master.config.timeout, 8);
  await t.throwsAsync(master.reload(), { code: 'ERR_NOT_RELOADABLE' });
});

test('a logger logs at the level that the options give', async (t) => {
  const lines: string[] = [];
  const logger = pino({ level: 'silent' }, { write: (line: string) => void lines.push(line) });
  const master = createMaster({
    rootDir: temporaryDirectory(t),
    interface: '127.0.0.1',
    publishPort: 0,
    requestPort: 0,
    logger,
    logLevel: 'info',
  });
  t.teardown(() => master.close());
  await master.start();
  t.true(lines.length > 0);
});
