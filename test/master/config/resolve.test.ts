import test from 'ava';
import { ConfigError } from '../../../master/config/option-kinds.ts';
import type { MasterOptions } from '../../../master/config/options.ts';
import { resolveMasterConfig } from '../../../master/config/resolve.ts';

test('without options everything has its default, and nothing can be changed', (t) => {
  const config = resolveMasterConfig();
  t.like(config, { publishPort: 4505, retPort: 4506, logFile: '/var/log/salt/master' });
  t.is(config.limits.requestBytes, 16_777_216);
  t.true(Object.isFrozen(config) && Object.isFrozen(config.limits));
});

test('options of a program are checked like those of a file', (t) => {
  // @ts-expect-error a text is no port
  t.throws(() => resolveMasterConfig({ publishPort: '4505' }), {
    instanceOf: ConfigError,
    code: 'ERR_OPTION_TYPE',
    message: 'options: publishPort: found a text, expected a whole number from 0 to 65535',
  });
  t.throws(() => resolveMasterConfig({ retPort: 65_536 }), { code: 'ERR_OPTION_TYPE' });
  t.throws(() => resolveMasterConfig({ openMode: true }), { code: 'ERR_OPTION_CONFLICT' });
  t.throws(() => resolveMasterConfig({ limits: { requestBytes: 100_000_001 } }), {
    code: 'ERR_OPTION_TYPE',
  });
  t.throws(() => resolveMasterConfig({ publishPort: 4506 }), { code: 'ERR_OPTION_CONFLICT' });
  t.is(resolveMasterConfig({ publishPort: 0, retPort: 0 }).retPort, 0);
});

test('a name that nobody has is refused, also one of every object', (t) => {
  const wrong = { publisPort: 1 } as Partial<MasterOptions>;
  t.throws(() => resolveMasterConfig(wrong), {
    instanceOf: ConfigError,
    code: 'ERR_OPTION_UNKNOWN',
    message: /did you mean publishPort\?/,
  });
  const inherited = { toString: 1 } as unknown as Partial<MasterOptions>;
  t.throws(() => resolveMasterConfig(inherited), { code: 'ERR_OPTION_UNKNOWN' });
});

test('undefined means not set', (t) => {
  const options = { publishPort: undefined } as unknown as Partial<MasterOptions>;
  t.is(resolveMasterConfig(options).publishPort, 4505);
});

test('paths go below root_dir once', (t) => {
  const config = resolveMasterConfig({
    rootDir: '/srv/test',
    pkiDir: '/srv/test/keys',
    cachedir: 'cache',
    autosignFile: '/etc/autosign',
    logFile: 'file:///dev/log',
  });
  t.like(config, {
    pkiDir: '/srv/test/keys',
    cachedir: '/srv/test/cache',
    autosignFile: '/srv/test/etc/autosign',
    logFile: 'file:///dev/log',
    stateDir: '/srv/test/var/lib/saltbridge',
  });
});

test('a socket directory much longer than the cache moves into it', (t) => {
  const long = resolveMasterConfig({ cachedir: '/c', sockDir: '/var/run/salt' });
  t.is(long.sockDir, '/c/.salt-unix');
  t.is(long.socket, '/c/.salt-unix/saltbridge.sock');
  t.is(resolveMasterConfig({ cachedir: '/c', sockDir: '/var/run/abc' }).sockDir, '/var/run/abc');
  t.is(resolveMasterConfig({ socket: '/run/x.sock' }).socket, '/run/x.sock');
});
