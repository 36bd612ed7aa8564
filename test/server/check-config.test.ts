/**
 * Tests of wrong configurations. Each mistake is reported with its location, the value that was
 * found, and the expected value.
 */

import { execFileSync } from 'node:child_process';
import { closeSync, openSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import test, { type ExecutionContext } from 'ava';
import { ConfigError, loadMasterConfig, resolvePlainOptions } from '#config';
import { readRegularFile } from '#runtime';
import { checkServerConfig } from '#server';
import { readStart } from '#server/migration/site-files.ts';
import { within } from '../helpers/deadline.ts';
import { testLimit } from '../helpers/limits.ts';
import { temporaryDirectory } from '../helpers/temporary-directory.ts';
import { configDirectory } from '../master/config/files.ts';

/** Returns the messages for a configuration. Its directory is replaced with `DIR`. */
async function messagesOf(
  t: ExecutionContext,
  files: string | Readonly<Record<string, string>>,
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
    'DIR/master:2: saltbridge:stat_dir: unknown option; did you mean state_dir?',
  ],
  [
    'a misspelt limit',
    'saltbridge:\n  limits:\n    brust: 5\n',
    'DIR/master:3: saltbridge:limits:brust: unknown option; did you mean burst?',
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
    'DIR/master:1: rest_cherrypy: the HTTP API would listen without TLS: add ssl_crt and ssl_key, or disable_ssl: true',
  ],
  [
    'the HTTP API without a key',
    'rest_cherrypy: {port: 8000, ssl_crt: /c}\n',
    'DIR/master:1: rest_cherrypy: the HTTP API would listen without TLS: add ssl_key, or disable_ssl: true',
  ],
  [
    'a misspelt option of the HTTP API',
    'rest_cherrypy:\n  port: 8000\n  disable_sssl: true\n',
    'DIR/master:3: rest_cherrypy:disable_sssl: unknown option; did you mean disable_ssl?',
  ],
  [
    'a port of the HTTP API over its bound',
    'saltbridge:\n  api:\n    port: 99999\n    disable_ssl: true\n',
    `DIR/master:3: saltbridge:api:port: 99999 is over 65535, ${fromTo}`,
  ],
  [
    'a missing certificate',
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
    'DIR/master:1: ssl: certfile is missing: set it to a certificate, PEM',
  ],
  [
    'an unknown transport',
    'transport_opts:\n  tpc: {publish_port: 1}\n',
    'DIR/master:2: transport_opts:tpc: unknown option; did you mean tcp?',
  ],
  [
    'an option that a transport does not have',
    'transport_opts:\n  tcp:\n    publish_prot: 1\n',
    'DIR/master:3: transport_opts:tcp:publish_prot: unknown option; did you mean publish_port?',
  ],
  [
    'one port twice',
    'publish_port: 4506\n',
    'DIR/master:1: publish_port: publish_port of zeromq and ret_port of zeromq use the same port; set different ports',
  ],
  [
    'a relative directory of states',
    'file_roots:\n  base: [srv/salt]\n',
    'DIR/master:2: file_roots:base[0]: found a text, expected an absolute path',
  ],
  [
    'a nodegroup that is a number',
    'nodegroups:\n  web: 5\n',
    'DIR/master:2: nodegroups:web: found a whole number, expected an expression as text or as a list of words',
  ],
  [
    'a signal with a misspelt field',
    'saltbridge:\n  acl:\n    signals:\n      - tag: my/*\n        minion: web*\n',
    'DIR/master:5: saltbridge:acl:signals[0]:minion: unknown option; did you mean minions?',
  ],
  [
    'open mode without a confirmation',
    'open_mode: true\n',
    'DIR/master:1: open_mode: accepts any key for any minion, even a new key for a known minion; ' +
      'to confirm this, set confirm_open_mode: true under saltbridge:',
  ],
  [
    'a misspelt section of the bridge',
    'saltbridge:\n  bridge:\n    handels: {}\n',
    'DIR/master:3: saltbridge:bridge:handels: there is no such key; did you mean handles?',
  ],
  [
    'a number of the bridge over its bound',
    'saltbridge:\n  bridge:\n    handles:\n      per_endpoint: 5000\n',
    'DIR/master:4: saltbridge:bridge:handles:per_endpoint: 5000 is over 1000, expected a whole number from 1 to 1000',
  ],
  [
    'a missing catalog',
    'saltbridge: {bridge: {catalog: [commands]}}\n',
    'DIR/master:1: saltbridge:bridge:catalog[0]: cannot be read: DIR/commands: no such file or directory (ENOENT)',
  ],
  [
    'a tenant without a directory',
    'saltbridge:\n  tenants:\n    blue: tenants/blue\n',
    'DIR/master:3: saltbridge:tenants:blue: DIR/tenants/blue: the directory does not exist; give a directory that contains a file named master',
  ],
  [
    'an audit option that does not exist',
    'saltbridge: {audit: {enable: true}}\n',
    'DIR/master:1: saltbridge:audit:enable: unknown option; did you mean enabled?',
  ],
];

for (const [what, master, ...messages] of wrong) {
  test(`${what} is reported with its place and the expected value`, async (t) => {
    t.deepEqual(
      await messagesOf(t, master.replaceAll('DIR', '/nonexistent')),
      messages.map((it) => it.replace(/DIR\/([ck]\.pem)/, '/nonexistent/$1')),
    );
  });
}

interface SeveralMistakes {
  readonly what: string;
  readonly files: Readonly<Record<string, string>>;
  readonly messages: readonly string[];
}

/**
 * Configurations with several mistakes of different kinds, also within one entry. No mistake may
 * hide another one.
 */
const several: readonly SeveralMistakes[] = [
  {
    what: 'lists of directories',
    files: {
      master: `file_roots:
  base: [srv/a, /srv/b, 5]
  dev: [srv/c]
pillar_roots:
  prod: text
  base: [x]
nodegroups:
  web: 5
  db: {a: b}
`,
    },
    messages: [
      'DIR/master:8: nodegroups:web: found a whole number, expected an expression as text or as a list of words',
      'DIR/master:9: nodegroups:db: found a map, expected an expression as text or as a list of words',
      'DIR/master:2: file_roots:base[0]: found a text, expected an absolute path',
      'DIR/master:2: file_roots:base[2]: found a whole number, expected an absolute path',
      'DIR/master:3: file_roots:dev[0]: found a text, expected an absolute path',
      'DIR/master:5: pillar_roots:prod: found a text, expected a list of absolute paths',
      'DIR/master:6: pillar_roots:base[0]: found a text, expected an absolute path',
    ],
  },
  {
    what: 'expressions',
    files: {
      master: `peer:
  '(?=x)': [a]
  web.*: ['(?<=a)', 5, test.ping]
file_ignore_regex: ['(', ok, '[']
`,
    },
    messages: [
      'DIR/master:4: file_ignore_regex[0]: found a text, expected a valid regular expression',
      'DIR/master:4: file_ignore_regex[2]: found a text, expected a valid regular expression',
      'DIR/master:2: peer:(?=x): cannot be read, expected regular expressions (without lookaround and back-references)',
      'DIR/master:3: peer:web.*[0]: found a text, expected regular expressions (without lookaround and back-references)',
      'DIR/master:3: peer:web.*[1]: found a whole number, expected regular expressions (without lookaround and back-references)',
    ],
  },
  {
    what: 'transports',
    files: {
      master: `transport_opts:
  tpc: {publish_port: 1}
  tcp: {publish_prot: 2, ret_port: 99999}
ssl: {certfil: a, cert_reqs: CERT_REQUIRED}
`,
    },
    messages: [
      'DIR/master:2: transport_opts:tpc: unknown option; did you mean tcp?',
      'DIR/master:3: transport_opts:tcp:publish_prot: unknown option; did you mean publish_port?',
      'DIR/master:3: transport_opts:tcp:ret_port: 99999 is over 65535, expected a whole number from 0 to 65535',
      'DIR/master:4: ssl:certfil: unknown option; did you mean certfile?',
      'DIR/master:4: ssl: cert_reqs requires ca_certs to verify certificates: add it',
    ],
  },
  {
    what: 'the HTTP API',
    files: {
      master: `rest_cherrypy:
  port: 99999
  hosts: [a b, ok]
  authorized_ips: [x, 10.0.0.0/8]
  api_acl: {users: {fred: [x], ann: ['*']}}
  statc: /x
`,
    },
    messages: [
      'DIR/master:2: rest_cherrypy:port: 99999 is over 65535, expected a whole number from 0 to 65535',
      'DIR/master:3: rest_cherrypy:hosts[0]: found a text, expected a host name without a port, or *',
      'DIR/master:4: rest_cherrypy:authorized_ips[0]: found a text, expected an address, or a network such as 10.0.0.0/8',
      'DIR/master:5: rest_cherrypy:api_acl:users:fred[0]: found a text, expected an address, a network, or *',
      'DIR/master:6: rest_cherrypy:statc: unknown option; did you mean static?',
      'DIR/master:1: rest_cherrypy: the HTTP API would listen without TLS: add ssl_crt and ssl_key, or disable_ssl: true',
    ],
  },
  {
    what: 'profiles of sdb',
    files: {
      master: `one: {driver: yaml, fils: [/a], merge: {strategy: smrt}}
two: {driver: env, files: [a]}
`,
    },
    messages: [
      'DIR/master:1: one:fils: unknown option; did you mean files?',
      'DIR/master:1: one:merge:strategy: found a text, expected one of smart, recurse, aggregate, overwrite, list, none; did you mean smart?',
      'DIR/master:2: two:files[0]: found a text, expected an absolute path',
      'DIR/master:2: two: files: the driver `env` does not read files; remove the option `files`',
    ],
  },
  {
    what: 'the sections below saltbridge',
    files: {
      master: `saltbridge:
  limits: {brust: 5, request_bytes: 200000000}
  audit: {enabld: true, keep_files: x}
  relay: {publish_port: 1, from: [x]}
  cluster: {nats: [http://x], acknowledge: sceond, replicas: 9}
  git: {protocols: [https, htp], timeout: 0}
  http_query: {hosts: ['https://a/b', {url: 'https://b.test', adresses: []}], timeout: 0}
  tenants: {'a b': x, ok: [1]}
`,
    },
    messages: [
      'DIR/master:2: saltbridge:limits:brust: unknown option; did you mean burst?',
      'DIR/master:3: saltbridge:audit:enabld: unknown option; did you mean enabled?',
      'DIR/master:3: saltbridge:audit:keep_files: found a text, expected a whole number from 1 to 100000',
      'DIR/master:6: saltbridge:git:protocols[1]: found a text, expected one of https, http, ssh, git, file, ext; did you mean http?',
      'DIR/master:6: saltbridge:git:timeout: 0 is under 1, expected a whole number from 1 to 3600',
      'DIR/master:7: saltbridge:http_query:hosts[0]: found a text, expected an address without a path, and networks such as 10.0.0.0/8',
      'DIR/master:7: saltbridge:http_query:hosts[1]:adresses: unknown option; did you mean addresses?',
      'DIR/master:7: saltbridge:http_query:timeout: 0 is under 0.1, expected a number from 0.1 to 300',
      'DIR/master:5: saltbridge:cluster:nats[0]: found a text, expected an address such as nats://10.0.0.1:4222 or tls://nats.example:4222',
      'DIR/master:5: saltbridge:cluster:acknowledge: found a text, expected one of second, local, majority; did you mean second?',
      'DIR/master:5: saltbridge:cluster:replicas: 9 is over 5, expected a whole number from 1 to 5',
      'DIR/master:5: saltbridge:cluster: name must be set',
      'DIR/master:8: saltbridge:tenants:a b: invalid name: expected letters, digits, _ . -',
      'DIR/master:8: saltbridge:tenants:ok: found a list, expected a directory',
      'DIR/master:4: saltbridge:relay:from[0]: found a text, expected an address, or a network such as 10.0.0.0/8',
      'DIR/master:4: saltbridge:relay: ret_port must be set',
      'DIR/master:2: saltbridge:limits:request_bytes: 200000000 is over 100000000, expected a whole number from 1024 to 100000000',
    ],
  },
  {
    what: 'repositories: form and protocol of one',
    files: {
      master: `fileserver_backend: [gitfs]
gitfs_remotes:
  - ext::sh:
      - ssl_verify: perhaps
  - https://a/b:
      - user: x
      - rot: y
`,
    },
    messages: [
      'DIR/master:4: gitfs_remotes[0]:ssl_verify: found a text, expected true or false',
      'DIR/master:7: gitfs_remotes[1]:rot: unknown option; did you mean root?',
      'DIR/master:3: gitfs_remotes[0]: ext::sh: the protocol ext is not permitted: saltbridge: git: protocols lists https, http, ssh, git',
      'DIR/master:5: gitfs_remotes[1]: https://a/b: user and password must be set together',
    ],
  },
  {
    what: 'pillar from elsewhere: form and protocol of one',
    files: {
      master: `ext_pillar:
  - git:
      - main ext::sh:
          - enw: base
      - main file:///x
  - minion_http: {url: 'http://a/{id}', hosts: [b], timeout: 0}
  - minion_http: {ulr: 'https://a/{id}', hosts: [5, b], format: jsn}
`,
    },
    messages: [
      'DIR/master:4: ext_pillar[0]:git[0]:enw: unknown option; did you mean env?',
      'DIR/master:6: ext_pillar[1]:minion_http:timeout: 0 is under 0.1, expected a number from 0.1 to 300',
      'DIR/master:7: ext_pillar[2]:minion_http:ulr: unknown option; did you mean url?',
      'DIR/master:7: ext_pillar[2]:minion_http:format: found a text, expected one of json, yaml; did you mean json?',
      'DIR/master:6: ext_pillar[1]:minion_http:url: expected an https address; http requires allow_plain_http',
      'DIR/master:3: ext_pillar[0]:git[0]: ext::sh: the protocol ext is not permitted: saltbridge: git: protocols lists https, http, ssh, git',
      'DIR/master:5: ext_pillar[0]:git[1]: file:///x: the protocol file is not permitted: saltbridge: git: protocols lists https, http, ssh, git',
    ],
  },
  {
    what: 'signals: form and rate of one',
    files: {
      master: `saltbridge:
  acl:
    signals:
      - {tag: my/tag, minion: web*, rate: often}
      - {tag: '*', rate: 5, bytes: none}
      - {tga: x/y, expires: soon}
      - {tag: ok/1, schema: {type: objct, propertis: {}}}
`,
    },
    messages: [
      'DIR/master:4: saltbridge:acl:signals[0]:minion: unknown option; did you mean minions?',
      'DIR/master:4: saltbridge:acl:signals[0]:rate: must be a number, a slash, and second, minute, hour or day',
      'DIR/master:5: saltbridge:acl:signals[1]:bytes: found a text, expected a whole number, 1 or more',
      'DIR/master:5: saltbridge:acl:signals[1]:rate: found a whole number, expected text',
      'DIR/master:6: saltbridge:acl:signals[2]:tga: unknown option; did you mean tag?',
      'DIR/master:6: saltbridge:acl:signals[2]:expires: must be a date or a time with a zone: 2027-01-31, 2027-01-31T12:00:00Z',
      'DIR/master:7: saltbridge:acl:signals[3]:schema:type: the value of this JSON Schema keyword has the wrong type',
      'DIR/master:5: saltbridge:acl:signals[1]:tag: must contain a letter or a digit',
      'DIR/master:7: saltbridge:acl:signals[3]:schema:propertis: unknown keyword; did you mean properties?',
    ],
  },
  {
    what: 'rules: form, pattern and rate of one',
    files: {
      master: `nodegroups: {web: 5}
saltbridge:
  acl:
    rules:
      one: {subject: {minoin: web*}, action: signal, resource: {tag: a/b}, rate: often}
      two: {subject: {minion: [5, web]}, action: comand, resource: {fun: x}, expires: soon}
      three: {subject: {minion: {regex: '('}}, action: publish, resource: {fnu: test.ping}, rate: 5}
      four: {subject: {nodegroup: web}, action: signal, resource: {tag: x/y}}
      five: {subject: {nodegroup: wbe}, action: signal, resource: {tag: x/y}}
      six: {action: mine}
`,
    },
    messages: [
      'DIR/master:1: nodegroups:web: found a whole number, expected an expression as text or as a list of words',
      'DIR/master:5: saltbridge:acl:rules:one:subject:minoin: there is no such key; did you mean minion?',
      'DIR/master:5: saltbridge:acl:rules:one:rate: must be a number, a slash, and second, minute, hour or day',
      'DIR/master:6: saltbridge:acl:rules:two:subject:minion[0]: found a whole number, expected text, or a map',
      'DIR/master:6: saltbridge:acl:rules:two:action: expected one of signal, publish, runner, wheel, command, mine, file-send, pillar, key, subscribe; did you mean command?',
      'DIR/master:6: saltbridge:acl:rules:two:expires: must be a date or a time with a zone: 2027-01-31, 2027-01-31T12:00:00Z',
      'DIR/master:7: saltbridge:acl:rules:three:resource:fnu: there is no such key; did you mean fun?',
      'DIR/master:7: saltbridge:acl:rules:three:rate: found a whole number, expected text',
      'DIR/master:7: saltbridge:acl:rules:three:subject:minion: 1 unterminated group(s)',
      'DIR/master:10: saltbridge:acl:rules:six: subject and resource must be set',
      'DIR/master:9: saltbridge:acl:rules:five:subject:nodegroup: nodegroup "wbe" is not defined',
    ],
  },
  {
    what: 'reactions',
    files: {
      master: `saltbridge:
  reactions:
    one: {on: my/tag, do: {run: {fnu: test.ping, target: '*'}}, rate: often}
    two: {on: my/tag, do: {run: {fun: ping, target: x, args: ['a=b']}}, rate: often, maxConcurrent: 2}
    three: {do: {run: {fun: test.ping, target: '*'}, runner: {fun: a.b}}, throttle: soon, ratee: '1'}
`,
    },
    messages: [
      'DIR/master:3: saltbridge:reactions:one: rate: must be a number, a slash, and second, minute, hour or day',
      'DIR/master:3: saltbridge:reactions:one: do.run.fnu: there is no such key; did you mean fun?',
      'DIR/master:4: saltbridge:reactions:two: maxConcurrent: in files, the name of this field is max_concurrent',
      'DIR/master:5: saltbridge:reactions:three: throttle: found a text, expected a number from 0 to 31536000',
      'DIR/master:5: saltbridge:reactions:three: ratee: there is no such key; did you mean rate?',
      'DIR/master:5: saltbridge:reactions:three: on must be set',
      'DIR/master:5: saltbridge:reactions:three: do: expected one of run, runner and command',
      'DIR/master:4: saltbridge:reactions:two: do.run.fun: expected module.function',
      'DIR/master:4: saltbridge:reactions:two: do.run.args.0: pass an argument of the form name=value in `kwargs`',
      'DIR/master:4: saltbridge:reactions:two: rate: must be a number, a slash, and second, minute, hour or day',
    ],
  },
  {
    what: 'the schedule',
    files: {
      master: `schedule:
  a: {functon: x.y, seconds: 0, splay: -1}
  b: {function: x, cron: '* *', when: soon}
`,
    },
    messages: [
      'DIR/master:2: schedule:a: function: expected module.function',
      'DIR/master:2: schedule:a: the interval: expected 1 s or more',
      'DIR/master:2: schedule:a: splay: expected seconds, or start and end',
      'DIR/master:3: schedule:b: function: expected module.function',
      'DIR/master:3: schedule:b: expected one of: an interval (seconds, minutes, hours and days together), cron, when, or once',
    ],
  },
  {
    what: 'exports of events',
    files: {
      master: `saltbridge:
  export_bytes: 1
  event_export:
    - {name: one, webhook: 'http://a', match: [5, {a: b}], file: /x}
    - {name: one, nats: 'tls://192.0.2.1', subject: a b, timeout: 999}
`,
    },
    messages: [
      'DIR/master:4: saltbridge:event_export[0]:match[1]: found a map, expected text',
      'DIR/master:4: saltbridge:event_export[0]:file: expected one of webhook, file and nats, not also webhook',
      'DIR/master:4: saltbridge:event_export[0]:webhook: expected an https address without user and password (http requires allow_plain_http)',
      'DIR/master:5: saltbridge:event_export[1]:timeout: 999 is over 300, expected a whole number from 1 to 300',
      'DIR/master:5: saltbridge:event_export[1]:nats: expected addresses such as tls://name:port with host names, without user and password (nats: requires allow_plaintext)',
      'DIR/master:5: saltbridge:event_export[1]:subject: expected up to 256 characters without spaces, * and >',
      'DIR/master:5: saltbridge:event_export[1]:name: the name is already used by another export',
      'DIR/master:2: saltbridge:export_bytes: 1 is under 65536, expected a whole number from 65536 to 1099511627776',
    ],
  },
  {
    what: 'the sections of the bridge',
    files: {
      master: `saltbridge:
  bridge:
    handels: {}
    handles: {endpoints: [none, {url: 'https://a', adresses: []}, 'ftp://x'], timeout: 0.01}
    enroll: {master: [a], ticket_lifetime: 0, grain: perhaps}
    keystone: {url: 'https://k/v2', usrname: x}
    deployments: {poll_interval: 0, max_runing: 5}
    murano: {keys: {p1: none.pem, p2: none2.pem}, unsined: true}
    runs: {active: 0, endd: 1}
    guests:
      agents: {one: {secret_file: x, more: y}}
      identity: {r1: {instance: {imag: x}}, r2: {id: '{name}'}}
      vendordata: {id: x, ticket_lifetime: 5}
      data: {coordinator: {etcd: {endpoints: ['http://a', b], username: x}}}
      peers: {compute: {url: x}, poll_interval: 0}
`,
    },
    messages: [
      'DIR/master:3: saltbridge:bridge:handels: there is no such key; did you mean handles?',
      'DIR/master:4: saltbridge:bridge:handles:endpoints[1]:adresses: there is no such key; did you mean addresses?',
      'DIR/master:4: saltbridge:bridge:handles:timeout: 0.01 is under 0.1, expected a number from 0.1 to 300',
      'DIR/master:4: saltbridge:bridge:handles:endpoints[0]: Invalid URL',
      'DIR/master:4: saltbridge:bridge:handles:endpoints[2]: the URL must begin with http: or https:',
      'DIR/master:5: saltbridge:bridge:enroll:master: there is no such key; did you mean masters?',
      'DIR/master:5: saltbridge:bridge:enroll:ticket_lifetime: 0 is under 1, expected a whole number from 1 to 86400',
      'DIR/master:5: saltbridge:bridge:enroll:grain: found a text, expected true or false',
      'DIR/master:6: saltbridge:bridge:keystone:url: found a text, expected an http or https URL that ends with /v3',
      'DIR/master:6: saltbridge:bridge:keystone:usrname: there is no such key; did you mean username?',
      'DIR/master:6: saltbridge:bridge:keystone: password and project must be set',
      'DIR/master:7: saltbridge:bridge:deployments:poll_interval: 0 is under 1, expected a number from 1 to 3600',
      'DIR/master:7: saltbridge:bridge:deployments:max_runing: there is no such key; did you mean max_running?',
      'DIR/master:8: saltbridge:bridge:murano:unsined: there is no such key; did you mean unsigned?',
      'DIR/master:8: saltbridge:bridge:murano:keys:p1: none.pem is not a public key in PEM',
      'DIR/master:8: saltbridge:bridge:murano:keys:p2: none2.pem is not a public key in PEM',
      'DIR/master:9: saltbridge:bridge:runs:active: 0 is under 1, expected a whole number from 1 to 1000000',
      'DIR/master:9: saltbridge:bridge:runs:endd: there is no such key; did you mean ended?',
      'DIR/master:11: saltbridge:bridge:guests:agents:one:more: there is no such key; known names: secret_file',
      'DIR/master:13: saltbridge:bridge:guests:vendordata:ticket_lifetime: 5 is under 60, expected a whole number from 60 to 86400',
      'DIR/master:14: saltbridge:bridge:guests:data:coordinator:etcd:endpoints[1]: found a text, expected a URL such as https://etcd.example.org:2379',
      'DIR/master:15: saltbridge:bridge:guests:peers:poll_interval: 0 is under 1, expected a number from 1 to 86400',
      'DIR/master:15: saltbridge:bridge:guests:peers: network must be set',
      'DIR/master:14: saltbridge:bridge:guests:data:coordinator:etcd:username: username and password_file must be set together',
      'DIR/master:13: saltbridge:bridge:guests:vendordata:id: must contain {uuid}, or {name} and {project}, so that ids are unique',
      'DIR/master:12: saltbridge:bridge:guests:identity:r1:instance:imag: there is no such key; did you mean image?',
      'DIR/master:12: saltbridge:bridge:guests:identity:r2: instance must be set',
    ],
  },
  {
    what: 'the catalog',
    files: {
      master: `saltbridge: {bridge: {catalog: [commands.yaml, none.yaml]}}
`,
      'commands.yaml': `demo.echo:
  functon: test.echo
  parameters: {type: object, properties: {text: {typ: string, maxLength: x}}}
  timeout: 0
demo.two:
  description: y
  function: test.echo
  arguments: {text: other, more: {a: 1}}
  concurrency: {per_target: 0, totl: 5}
plans:
  demo.plan:
    description: x
    groups: {all: {max: 0}, web: {mx: 1}}
    steps:
      one: {command: demo.echo, group: al, batch_siz: 5}
      two: {command: demo.none, group: all, needs: [three], on_failure: go}
deployments:
  demo.code: {description: x, group: scrpt, sha256: [x]}
murano:
  demo.entry: {description: x, type: App, entry_pont: x, command: demo.none}
`,
    },
    messages: [
      'DIR/master:1: saltbridge:bridge:catalog[1]: cannot be read: DIR/none.yaml: no such file or directory (ENOENT)',
      'DIR/commands.yaml:1: demo.echo: description must be set',
      'DIR/commands.yaml:2: demo.echo: functon: there is no such key; did you mean function?',
      'DIR/commands.yaml:3: demo.echo: parameters.properties.text.typ: unknown keyword; did you mean type?',
      'DIR/commands.yaml:3: demo.echo: parameters.properties.text.maxLength: the value of this JSON Schema keyword has the wrong type',
      'DIR/commands.yaml:4: demo.echo: timeout: 0 is not over 0, expected a number over 0, up to 86400',
      'DIR/commands.yaml:8: demo.two: arguments.more: must be the name of a parameter, or a map {value: …} or {map: …}',
      'DIR/commands.yaml:8: demo.two: arguments.text: unknown parameter other: the command does not define this parameter',
      'DIR/commands.yaml:9: demo.two: concurrency.per_target: 0 is under 1, expected a whole number from 1 to 1000000',
      'DIR/commands.yaml:9: demo.two: concurrency.totl: there is no such key; did you mean total?',
      'DIR/commands.yaml:13: demo.plan: groups.all.max: 0 is under 1, expected a whole number from 1 to 1000000',
      'DIR/commands.yaml:13: demo.plan: groups.web.mx: there is no such key; did you mean max?',
      'DIR/commands.yaml:15: demo.plan: steps.one.batch_siz: there is no such key; did you mean batch_size?',
      'DIR/commands.yaml:15: demo.plan: steps.one.group: unknown group al',
      'DIR/commands.yaml:16: demo.plan: steps.two.on_failure: found a text, expected one of stop, continue',
      'DIR/commands.yaml:16: demo.plan: steps.two.needs: unknown step three',
      'DIR/commands.yaml:16: demo.plan: steps.two.command: no command in the catalog has this name',
      'DIR/commands.yaml:18: demo.code: group: found a text, expected one of ansible, apply-config, cfn-init, chef, hiera, json-file, puppet, salt, script; did you mean script?',
      'DIR/commands.yaml:18: demo.code: sha256.0: found a text, expected a SHA-256 in hexadecimal',
      'DIR/commands.yaml:20: demo.entry: type: found a text, expected one of Application, Chef, Puppet',
      'DIR/commands.yaml:20: demo.entry: entry_pont: there is no such key; did you mean entry_point?',
    ],
  },
];

for (const { what, files, messages } of several) {
  test(`all mistakes in ${what} are reported at once`, async (t) => {
    t.deepEqual((await messagesOf(t, files)).sort(), messages.toSorted());
  });
}

test('all mistakes in options of a program are reported at once, in maps and lists too', (t) => {
  const options: object = {
    requestPort: 99_999,
    retPort: 1,
    autoAcept: true,
    limits: { brust: 5, requestBytes: 1 },
    fileRoots: { base: ['srv/a', '/srv/b', 5] },
    audit: { enabld: true, fileBytes: 1 },
    fileserverBackend: ['gitfs'],
    gitfsRemotes: [
      { id: 'ext::sh', parameters: {}, saltenv: [] },
      { id: 'https://a/b', parameters: { rot: 'x' }, saltenv: [] },
    ],
    acl: {
      signals: [{ tag: 'my/tag', minion: 'web*', rate: 'often' }],
      rules: [
        {
          name: 'one',
          subject: { minoin: 'a' },
          action: 'signal',
          resource: { tag: 'a/b' },
          rate: 'x',
        },
      ],
    },
    reactions: [{ name: 'two', on: 'a/b', do: { run: { fun: 'ping', target: '*' } }, rate: 'x' }],
  };
  const error = t.throws(() => resolvePlainOptions(options), { instanceOf: ConfigError });
  const places = error.problems.map(({ key, entry = '', problem }) => `${key}${entry}: ${problem}`);
  t.deepEqual(places, [
    'retPort: is called requestPort in programs',
    'autoAcept: unknown option; did you mean autoAccept?',
    'limits:brust: unknown option; did you mean burst?',
    'requestPort: 99999 is over 65535, expected a whole number from 0 to 65535',
    'fileRoots:base[0]: found a text, expected an absolute path',
    'fileRoots:base[2]: found a whole number, expected an absolute path',
    'gitfsRemotes[1]:rot: unknown option; did you mean root?',
    'audit:enabld: unknown option; did you mean enabled?',
    'audit:fileBytes: 1 is under 4096, expected a whole number from 4096 to 1099511627776',
    'limits:requestBytes: 1 is under 1024, expected a whole number from 1024 to 100000000',
    'acl:signals[0]:minion: unknown option; did you mean minions?',
    'acl:signals[0]:rate: must be a number, a slash, and second, minute, hour or day',
    'saltbridge:acl:rules:one:subject:minoin: there is no such key; did you mean minion?',
    'saltbridge:acl:rules:one:rate: must be a number, a slash, and second, minute, hour or day',
    'saltbridge:reactions:two: do.run.fun: expected module.function',
    'saltbridge:reactions:two: rate: must be a number, a slash, and second, minute, hour or day',
    'gitfsRemotes[0]: ext::sh: the protocol ext is not permitted: saltbridge: git: protocols lists https, http, ssh, git',
  ]);
});

const broken: readonly (readonly [what: string, master: string, message: string])[] = [
  [
    'a quote that is not closed',
    'id: a\nkey_pass: "hunter2\n',
    `DIR/master:3: invalid YAML: the quote that begins the text is not closed (MISSING_CHAR)
     3 | 
       | ^`,
  ],
  [
    'a tab',
    'nodegroups:\n\tweb: web1\n',
    `DIR/master:2: invalid YAML: a tab cannot indent a line; use spaces (TAB_AS_INDENT)
     2 | →web: xxxx
       | ^`,
  ],
  [
    'a bracket that is not closed',
    'interface: [secret1, secret2\nid: a\n',
    `DIR/master:2: invalid YAML: a [ is not closed by ] on the lines of its value (BAD_INDENT)
     2 | id: x
       | ^`,
  ],
  [
    'a key that stands twice',
    'timeout: 1\ntimeout: 2\n',
    `DIR/master:2: invalid YAML: duplicate key in a map: remove one of the two (DUPLICATE_KEY)
     2 | timeout: x
       | ^`,
  ],
  [
    'a colon within a text',
    'id: my secret: word\n',
    `DIR/master:1: invalid YAML: a map cannot begin here: put text that contains ": " in quotes (BLOCK_AS_IMPLICIT_KEY)
     1 | id: xx xxxxxx: xxxx
       |     ^`,
  ],
];

for (const [what, master, message] of broken) {
  test(`${what} is reported in words, with a mark and without the text`, async (t) => {
    const [found = ''] = await messagesOf(t, master);
    t.is(found, message);
    t.notRegex(found, /hunter2|secret/);
  });
}

test('all mistakes of every file are reported at once, and the start reports them too', async (t) => {
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

test('devices are not read as certificates or included files', async (t) => {
  const directory = configDirectory(t, {
    master:
      'rest_cherrypy: {port: 0, ssl_crt: /dev/null, ssl_key: /dev/null}\ninclude: /dev/null\n',
  });
  const { problems } = await checkServerConfig(directory);
  const texts = problems.map(({ message }) => message.replaceAll(directory, 'DIR'));
  t.deepEqual(texts.toSorted(), [
    '/dev/null: the file cannot be read: it is not a regular file',
    'DIR/master:1: rest_cherrypy:ssl_crt: cannot be read: it is not a regular file',
    'DIR/master:1: rest_cherrypy:ssl_key: cannot be read: it is not a regular file',
  ]);
});

test('a check does not wait for the writer of a pipe', async (t) => {
  const pipe = path.join(temporaryDirectory(t), 'pipe');
  execFileSync('mkfifo', [pipe]);
  // If the check waited, opening both ends of the pipe would end the wait.
  t.teardown(() => closeSync(openSync(pipe, 'r+')));
  const directory = configDirectory(t, {
    master: `rest_cherrypy: {port: 0, ssl_crt: ${pipe}, ssl_key: ${pipe}}\n`,
  });
  const { problems } = await within('the check', checkServerConfig(directory));
  t.is(problems.length, 2);
  t.is(await within('the start of the file', readStart(pipe, 10)), undefined);
});

test('a file of the configuration that is too large is not read', async (t) => {
  const file = path.join(temporaryDirectory(t), 'large');
  writeFileSync(file, 'x'.repeat(11));
  await t.throwsAsync(readRegularFile(file, testLimit({ total: 10 })), {
    message: 'it is larger than 10 bytes',
  });
  t.is((await readRegularFile(file, testLimit({ total: 11 }))).length, 11);
});

test('a directory that is not there is refused', async (t) => {
  const directory = path.join(temporaryDirectory(t), 'none');
  const { problems } = await checkServerConfig(directory);
  t.deepEqual(
    problems.map(({ message, code }) => [code, message]),
    [
      [
        'ERR_CONFIG_READ',
        `${directory}: the directory does not exist; give a directory that contains a file named master`,
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
        'DIR/master:2: file_roots:base: /nonexistent/salt is not a directory, so no file is served from it',
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

test('values that have no effect are warnings: a master starts with them, as in Salt', async (t) => {
  const directory = configDirectory(t, {
    master: `root_dir: /
renderer: jinja|yml
autosign_file: /nonexistent/sign
autoreject_file: /nonexistent/reject
peer: True
peer_run: False
mine_get: True
fileserver_list_cache_time: 0
pub_hwm: 0
file_roots: {base: [/usr]}
reactor:
  - 'salt/auth':
    - /nonexistent/none.sls
    - salt://x/y.sls
    - /usr
    - /nonexistent/*.sls
schedule:
  one:
    function: nosuch.fun
    seconds: 60
  two: {function: state.pause, seconds: 60}
  three: {function: nosuch.fun, tgt: '*', seconds: 60}
  four: {function: jobs.active, seconds: 60}
nodegroups:
  a: N@b
  b: N@a
  bad: web1 or and
  ghost: N@nosuch
  slow: E@web(?=1)
external_auth:
  file:
    ^filename: /nonexistent/users
    fred: ['.*']
`,
  });
  const { problems, warnings, loaded } = await checkServerConfig(directory);
  t.deepEqual(problems, []);
  t.not(loaded, undefined);
  const place = `${directory}/master`;
  const nothing = 'expected a map; as in Salt, nothing is permitted';
  const absent = 'does not exist, so this entry has no effect';
  t.deepEqual(
    warnings.map(({ message }) => message.replace(place, 'master')).sort(),
    [
      `master:13: reactor[0]:salt/auth[0]: /nonexistent/none.sls ${absent}`,
      `master:14: reactor[0]:salt/auth[1]: salt://x/y.sls ${absent}`,
      'master:19: schedule:one:function: unknown runner nosuch.fun',
      'master:21: schedule:two:function: the runner state.pause is not served: orchestrations cannot be paused; state.soft_kill stops one before a state',
      'master:2: renderer: the renderer "yml" is not served: use jinja|yaml, jinja|json, yaml or json',
      'master:25: nodegroups:a: nodegroup "a" contains itself: a > b > a; it matches no minion',
      'master:26: nodegroups:b: nodegroup "b" contains itself: b > a > b; it matches no minion',
      'master:27: nodegroups:bad: a condition is missing before "and"; it matches no minion',
      'master:28: nodegroups:ghost: nodegroup "nosuch" is not defined; it matches no minion',
      `master:32: external_auth:file:^filename: /nonexistent/users ${absent}`,
      `master:3: autosign_file: /nonexistent/sign ${absent}`,
      `master:4: autoreject_file: /nonexistent/reject ${absent}`,
      `master:5: peer: found true, ${nothing}`,
      `master:6: peer_run: found false, ${nothing}`,
      `master:7: mine_get: found true, ${nothing}`,
    ].sort(),
  );
  const { peer, peerRun, mineGet } = loaded?.config ?? {};
  t.deepEqual([peer, peerRun, mineGet], [{}, {}, {}]);
});
