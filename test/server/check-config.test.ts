/** Wrong configurations: each mistake is told with its place, what was found and what is expected. */

import path from 'node:path';
import test, { type ExecutionContext } from 'ava';
import { ConfigError, loadMasterConfig } from '../../master/index.ts';
import { checkServerConfig } from '../../server/index.ts';
import { temporaryDirectory } from '../helpers/temporary-directory.ts';
import { configDirectory } from '../master/config/files.ts';

/** The messages of a configuration, with its directory as `DIR`. */
async function messagesOf(
  t: ExecutionContext,
  files: string | Record<string, string>,
): Promise<string[]> {
  const directory = configDirectory(t, typeof files === 'string' ? { master: files } : files);
  const { problems } = await checkServerConfig(directory);
  return problems.map(({ message }) => message.replaceAll(directory, 'DIR'));
}

const fromTo = 'expected a whole number from 0 to 65535';

const wrong: readonly (readonly [what: string, master: string, ...messages: string[]])[] = [
  [
    'a number over its bound',
    'publish_port: 99999\n',
    `DIR/master:1: publish_port: 99999 is over 65535, ${fromTo}`,
  ],
  [
    'a number under its bound',
    '\nret_port: -1\n',
    `DIR/master:2: ret_port: -1 is under 0, ${fromTo}`,
  ],
  [
    'both ports wrong',
    'publish_port: 99999\nret_port: -1\n',
    `DIR/master:1: publish_port: 99999 is over 65535, ${fromTo}`,
    `DIR/master:2: ret_port: -1 is under 0, ${fromTo}`,
  ],
  ['a fraction', 'ret_port: 1.5\n', `DIR/master:1: ret_port: 1.5 is not a whole number, ${fromTo}`],
  [
    'text in place of a number',
    'ret_port: "4506"\n',
    `DIR/master:1: ret_port: found a text, ${fromTo}`,
  ],
  [
    'a time below zero',
    'timeout: -5\n',
    'DIR/master:1: timeout: -5 is under 0, expected a number of seconds, 0 or more',
  ],
  [
    'text in place of a flag',
    'auto_accept: perhaps\n',
    'DIR/master:1: auto_accept: found a text, expected true or false',
  ],
  [
    'a misspelt word',
    'transport: zeormq\n',
    'DIR/master:1: transport: found a text, expected one of zeromq, tcp, ws; did you mean zeromq?',
  ],
  [
    'a list in place of a text',
    'interface: [a, b]\n',
    'DIR/master:1: interface: found a list, expected text',
  ],
  [
    'a misspelt option of ours',
    'saltbridge:\n  stat_dir: /x\n',
    'DIR/master:2: saltbridge:stat_dir: there is no such option; did you mean state_dir?',
  ],
  [
    'a misspelt limit',
    'saltbridge:\n  limits:\n    brust: 5\n',
    'DIR/master:3: saltbridge:limits:brust: there is no such option; did you mean burst?',
  ],
  [
    'a limit over its bound',
    'saltbridge: {limits: {request_bytes: 200000000}}\n',
    'DIR/master:1: saltbridge:limits:request_bytes: 200000000 is over 100000000, expected a whole number from 1024 to 100000000',
  ],
  [
    'our section as a text',
    'saltbridge: yes please\n',
    'DIR/master:1: saltbridge: found a text, expected a map',
  ],
  [
    'the HTTP API without TLS',
    'rest_cherrypy:\n  port: 8000\n',
    'DIR/master:1: rest_cherrypy: the HTTP API would listen without TLS; add ssl_crt and ssl_key, or disable_ssl: true',
  ],
  [
    'the HTTP API without a key',
    'rest_cherrypy: {port: 8000, ssl_crt: /c}\n',
    'DIR/master:1: rest_cherrypy: the HTTP API would listen without TLS; add ssl_key, or disable_ssl: true',
  ],
  [
    'a misspelt option of the HTTP API',
    'rest_cherrypy:\n  port: 8000\n  disable_sssl: true\n',
    'DIR/master:3: rest_cherrypy:disable_sssl: there is no such option; did you mean disable_ssl?',
  ],
  [
    'a port of the HTTP API over its bound',
    'saltbridge:\n  api:\n    port: 99999\n    disable_ssl: true\n',
    `DIR/master:3: saltbridge:api:port: 99999 is over 65535, ${fromTo}`,
  ],
  [
    'a certificate that is not there',
    'rest_cherrypy:\n  port: 0\n  ssl_crt: DIR/c.pem\n  ssl_key: DIR/k.pem\n',
    'DIR/master:3: rest_cherrypy:ssl_crt: cannot be read: DIR/c.pem: no such file or directory (ENOENT)',
    'DIR/master:4: rest_cherrypy:ssl_key: cannot be read: DIR/k.pem: no such file or directory (ENOENT)',
  ],
  [
    'a certificate of the transports that is not there',
    'transport: tcp\nssl:\n  certfile: DIR/c.pem\n',
    'DIR/master:3: ssl:certfile: cannot be read: DIR/c.pem: no such file or directory (ENOENT)',
    'DIR/master:2: ssl:keyfile: cannot be read: DIR/c.pem: no such file or directory (ENOENT)',
  ],
  [
    'TLS without a certificate',
    'ssl:\n  keyfile: /k\n',
    'DIR/master:1: ssl: certfile is missing; name the certificate, PEM',
  ],
  [
    'an unknown transport',
    'transport_opts:\n  tpc: {publish_port: 1}\n',
    'DIR/master:2: transport_opts:tpc: there is no such option; did you mean tcp?',
  ],
  [
    'an option that a transport does not have',
    'transport_opts:\n  tcp:\n    publish_prot: 1\n',
    'DIR/master:3: transport_opts:tcp:publish_prot: there is no such option; did you mean publish_port?',
  ],
  [
    'one port twice',
    'publish_port: 4506\n',
    'DIR/master:1: publish_port: publish_port of zeromq and ret_port of zeromq are the same; expected different ports',
  ],
  [
    'a relative directory of states',
    'file_roots:\n  base: [srv/salt]\n',
    'DIR/master:2: file_roots:base: found a list, expected a list of absolute paths',
  ],
  [
    'a nodegroup that is a number',
    'nodegroups:\n  web: 5\n',
    'DIR/master:2: nodegroups:web: found a whole number, expected an expression as text or as a list of words',
  ],
  [
    'a nodegroup that contains itself',
    'nodegroups: {a: N@a}\n',
    'DIR/master:1: nodegroups: a nodegroup contains itself: a > a; take one N@ of these out',
  ],
  [
    'a signal with a misspelt field',
    'saltbridge:\n  acl:\n    signals:\n      - tag: my/*\n        minion: web*\n',
    'DIR/master:3: saltbridge:acl:signals: entry 1 has a field that does not exist; did you mean minions?',
  ],
  [
    'open mode without a confirmation',
    'open_mode: true\n',
    'DIR/master:1: open_mode: accepts any key for any minion, also in place of a known one; if that is meant, set confirm_open_mode: true under saltbridge:',
  ],
  [
    'a misspelt section of the bridge',
    'saltbridge:\n  bridge:\n    handels: {}\n',
    'DIR/master:3: saltbridge:bridge:handels: there is no such key; did you mean handles?',
  ],
  [
    'a number of the bridge over its bound',
    'saltbridge:\n  bridge:\n    handles:\n      per_endpoint: 5000\n',
    'DIR/master:4: saltbridge:bridge:handles:per_endpoint: 5000 is over 1000',
  ],
  [
    'a catalog that is not there',
    'saltbridge: {bridge: {catalog: [commands]}}\n',
    'DIR/master:1: saltbridge:bridge:catalog: DIR/commands: cannot be read',
  ],
  [
    'a tenant without a directory',
    'saltbridge:\n  tenants:\n    blue: tenants/blue\n',
    'DIR/master:3: saltbridge:tenants:blue: DIR/tenants/blue: there is no such directory, expected one with a file named master',
  ],
  [
    'an audit option that does not exist',
    'saltbridge: {audit: {enable: true}}\n',
    'DIR/master:1: saltbridge:audit:enable: there is no such option; did you mean enabled?',
  ],
];

for (const [what, master, ...messages] of wrong) {
  test(`${what} is told with its place and what is expected`, async (t) => {
    t.deepEqual(
      await messagesOf(t, master.replaceAll('DIR', '/nonexistent')),
      messages.map((it) => it.replace(/DIR\/([ck]\.pem)/, '/nonexistent/$1')),
    );
  });
}

const broken: readonly (readonly [what: string, master: string, message: string])[] = [
  [
    'a quote that is not closed',
    'id: a\nkey_pass: "hunter2\n',
    `DIR/master:3: this is not YAML that can be used: the quote that begins the text is not closed (MISSING_CHAR)
     3 | 
       | ^`,
  ],
  [
    'a tab',
    'nodegroups:\n\tweb: web1\n',
    `DIR/master:2: this is not YAML that can be used: a tab cannot indent a line; use blanks (TAB_AS_INDENT)
     2 | →web: xxxx
       | ^`,
  ],
  [
    'a bracket that is not closed',
    'interface: [secret1, secret2\nid: a\n',
    `DIR/master:2: this is not YAML that can be used: a [ is not closed by ] on the lines of its value (BAD_INDENT)
     2 | id: x
       | ^`,
  ],
  [
    'a key that stands twice',
    'timeout: 1\ntimeout: 2\n',
    `DIR/master:2: this is not YAML that can be used: the key stands twice in its map; remove one of the two (DUPLICATE_KEY)
     2 | timeout: x
       | ^`,
  ],
  [
    'a colon within a text',
    'id: my secret: word\n',
    `DIR/master:1: this is not YAML that can be used: a map cannot begin here; put text that has ": " in it in quotes (BLOCK_AS_IMPLICIT_KEY)
     1 | id: xx xxxxxx: xxxx
       |     ^`,
  ],
];

for (const [what, master, message] of broken) {
  test(`${what} is told in words, with a mark and without the text`, async (t) => {
    const [found = ''] = await messagesOf(t, master);
    t.is(found, message);
    t.notRegex(found, /hunter2|secret/);
  });
}

test('all mistakes are told at once, of every file, and the start tells them too', async (t) => {
  const files = {
    master: 'publish_port: 99999\nauto_accept: perhaps\n',
    'master.d/a.conf': 'saltbridge: {bridge: {runs: {active: 0}}}\n',
    'master.d/b.conf': 'id: [\n',
  };
  const messages = await messagesOf(t, files);
  t.is(messages.length, 4);
  t.deepEqual(
    messages.map((it) => it.replace(/(:\d+): .*/s, '$1')),
    ['DIR/master.d/b.conf:2', 'DIR/master:1', 'DIR/master:2', 'DIR/master.d/a.conf:1'],
  );
  const error = await t.throwsAsync(loadMasterConfig(configDirectory(t, files)), {
    instanceOf: ConfigError,
  });
  t.is(error?.problems.length, 3, 'those of the master alone');
  for (const problem of error?.problems ?? []) t.true(error?.message.includes(problem.message));
});

test('a directory that is not there is refused', async (t) => {
  const directory = path.join(temporaryDirectory(t), 'none');
  const { problems } = await checkServerConfig(directory);
  t.deepEqual(
    problems.map(({ message, code }) => [code, message]),
    [
      [
        'ERR_CONFIG_READ',
        `${directory}: there is no such directory, expected one with a file named master`,
      ],
    ],
  );
});

test('directories of file_roots that are not there are warnings, patterns are not', async (t) => {
  const directory = configDirectory(t, {
    master:
      'file_roots:\n  base: [/nonexistent/salt, /nonexistent/*/x]\n  __env__: [/srv/__env__/x]\n',
  });
  const { problems, warnings } = await checkServerConfig(directory);
  t.deepEqual(problems, []);
  t.deepEqual(
    warnings.map(({ kind, message }) => [kind, message.replace(directory, 'DIR')]),
    [
      [
        'missing-directory',
        'DIR/master:2: file_roots:base: /nonexistent/salt is no directory; nothing is served from it',
      ],
    ],
  );
});

test("misspelt options of Salt's are warnings with the nearest name", async (t) => {
  const directory = configDirectory(t, { master: 'publsh_port: 1\nlimits: {}\nwholly_other: 1\n' });
  const { warnings } = await checkServerConfig(directory);
  t.deepEqual(
    warnings.map(({ message }) => message.replace(`${directory}/`, '')),
    [
      'master:1: publsh_port is not an option of a master; did you mean publish_port?',
      'master:2: limits is not an option of a master; it belongs under saltbridge:',
      'master:3: wholly_other is not an option of a master',
    ],
  );
});

test('a configuration without mistakes has none', async (t) => {
  const master = 'file_roots: {base: []}\nsaltbridge: {bridge: {handles: {per_endpoint: 4}}}\n';
  const { problems, warnings, files } = await checkServerConfig(configDirectory(t, { master }));
  t.deepEqual([problems, warnings, files.length], [[], [], 1]);
});
