/** Tenants in the configuration, and what two of them must not share. */
import { mkdirSync, symlinkSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import test, { type ExecutionContext } from 'ava';
import { ConfigError, loadTenants } from '../../../master/index.ts';
import { temporaryDirectory } from '../../helpers/temporary-directory.ts';

/** A main file that names `red` and `blue`, and theirs; `%` stands for the whole directory. */
function layOut(t: ExecutionContext, red: string, blue: string, main = ''): string {
  const directory = temporaryDirectory(t);
  const write = (name: string, text: string): void => {
    mkdirSync(path.join(directory, path.dirname(name)), { recursive: true });
    writeFileSync(path.join(directory, name), text.replaceAll('%', directory));
  };
  write('master', `${main}saltbridge:\n  tenants:\n    red: red\n    blue: '%/blue'\n`);
  write('red/master', replacing('root_dir: %/r\npublish_port: 4505\nret_port: 4506\n', red));
  write('blue/master', replacing('root_dir: %/b\npublish_port: 5505\nret_port: 5506\n', blue));
  return directory;
}

/** Lines of options, of which the later ones go before. */
function replacing(usual: string, given: string): string {
  const lines = `${usual}${given}`.split('\n').filter((line) => line !== '');
  const options = new Map(lines.map((line) => [line.split(':')[0], line]));
  return `${[...options.values()].join('\n')}\n`;
}

test('each tenant has its own configuration, from the main file or anywhere', async (t) => {
  const directory = layOut(t, '', 'no_such_option: 1\n');
  const { tenants, warnings } = await loadTenants(directory);
  t.deepEqual(
    tenants.map(({ name, directory: own, config }) => [name, own, config.pkiDir]),
    ['red', 'blue'].map((name) => [
      name,
      path.join(directory, name),
      path.join(directory, name.slice(0, 1), 'etc/salt/pki/master'),
    ]),
  );
  t.deepEqual(
    tenants.map((it) => it.warnings.map(({ key }) => key)),
    [[], ['no_such_option']],
  );
  t.deepEqual(warnings, []);
});

test('a directory without tenants is one master', async (t) => {
  const directory = temporaryDirectory(t);
  writeFileSync(path.join(directory, 'master'), `root_dir: ${directory}\n`);
  t.deepEqual((await loadTenants(directory)).tenants, []);
});

const shared: readonly (readonly [what: string, red: string, blue: string, RegExp])[] = [
  ['pki_dir', 'pki_dir: %/r/same\n', 'root_dir: %/r\npki_dir: same\n', /pki_dir .* and pki_dir/],
  [
    'a state_dir within the other one',
    'saltbridge: {state_dir: %/r/state}\n',
    'root_dir: %\nsaltbridge: {state_dir: r/state/blue}\n',
    /state_dir .* and saltbridge: state_dir/,
  ],
  [
    'the socket',
    'saltbridge: {socket: %/r/s}\n',
    'root_dir: %\nsaltbridge: {socket: r/s}\n',
    /socket .* and saltbridge: socket/,
  ],
  ['a port', '', 'ret_port: 4505\n', /publish_port .* and ret_port/],
  [
    'a port of another transport on an address of its own',
    '',
    'interface: 127.0.0.1\ntransport_opts: {tcp: {publish_port: 7001, ret_port: 4506}}\n',
    /ret_port .* and ret_port/,
  ],
  [
    'files that the one serves and the other keeps',
    'file_roots: {base: [%/b]}\n',
    '',
    /file_roots .* and pki_dir/,
  ],
  [
    'files that the other serves',
    '',
    'file_roots: {base: [%/r/var/cache]}\n',
    /cachedir .* and file_roots/,
  ],
];

for (const [what, red, blue, message] of shared) {
  test(`two tenants that share ${what} are refused with both names and files`, async (t) => {
    const directory = layOut(t, red, blue);
    const error = await t.throwsAsync(loadTenants(directory), {
      instanceOf: ConfigError,
      code: 'ERR_OPTION_CONFLICT',
      message,
    });
    t.true(error?.message.includes(`red (${directory}/red/master)`));
    t.true(error?.message.includes(`blue (${directory}/blue/master)`));
  });
}

test('a folder that is shared by a link is found', async (t) => {
  const directory = layOut(t, '', '');
  mkdirSync(path.join(directory, 'r/etc/salt/pki/master'), { recursive: true });
  mkdirSync(path.join(directory, 'b/etc/salt/pki'), { recursive: true });
  symlinkSync(
    path.join(directory, 'r/etc/salt/pki/master'),
    path.join(directory, 'b/etc/salt/pki/master'),
  );
  await t.throwsAsync(loadTenants(directory), { message: /pki_dir .* and pki_dir/ });
});

test('any free port is no conflict, nor is one port on two addresses', async (t) => {
  const directory = layOut(
    t,
    'interface: 127.0.0.1\npublish_port: 0\nret_port: 4506\n',
    'interface: 127.0.0.2\npublish_port: 0\nret_port: 4506\n',
  );
  t.is((await loadTenants(directory)).tenants.length, 2);
});

test('a tenant has no tenants, and no other user than the process', async (t) => {
  const nested = layOut(t, 'saltbridge: {tenants: {green: /nowhere}}\n', '');
  await t.throwsAsync(loadTenants(nested), { message: /red .*has tenants itself/ });
  const other = layOut(t, 'user: salt\n', '', 'user: root\n');
  await t.throwsAsync(loadTenants(other), { message: /user of red/ });
  t.is((await loadTenants(layOut(t, 'user: salt\n', '', 'user: salt\n'))).tenants.length, 2);
});

test('a mistake in the file of one is told with its place', async (t) => {
  const directory = layOut(t, '', 'auto_accept: perhaps\n');
  await t.throwsAsync(loadTenants(directory), {
    code: 'ERR_OPTION_TYPE',
    message: new RegExp(`${directory}/blue/master:4: auto_accept`),
  });
});

test('names of tenants are words, and each has a directory', async (t) => {
  const directory = temporaryDirectory(t);
  for (const tenants of ["{'a b': x}", '{a: [x]}', '[a]', "{'../a': x}"]) {
    writeFileSync(path.join(directory, 'master'), `saltbridge: {tenants: ${tenants}}\n`);
    await t.throwsAsync(loadTenants(directory), { code: 'ERR_OPTION_TYPE' }, tenants);
  }
});
