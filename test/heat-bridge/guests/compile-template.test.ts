/**
 * Templates with roles: mistakes that are found before anything starts, and mistakes that Heat
 * reports.
 */

import { spawnSync } from 'node:child_process';
import test from 'ava';
import { parse, stringify } from 'yaml';
import { compileTemplate } from '#guests/templates/compile-template.ts';
import { drawFlows } from '#guests/templates/template-picture.ts';
import { drawFlowsAsSvg } from '#guests/templates/template-svg.ts';
import { testWhere } from '../../helpers/needs.ts';

interface RoleText {
  readonly role?: string;
  readonly reads?: object;
  readonly writes?: object;
  readonly more?: object;
  readonly type?: string;
  readonly dependsOn?: string;
}

/** Returns a template with one server for each role. */
function templateOf(servers: Readonly<Record<string, RoleText>>): string {
  const resources = Object.entries(servers).map(
    ([name, { more = {}, type = 'OS::Nova::Server', dependsOn, ...saltbridge }]) => [
      name,
      {
        type,
        ...(dependsOn === undefined ? {} : { depends_on: dependsOn }),
        metadata: { saltbridge },
        properties: { flavor: 'small', ...more },
      },
    ],
  );
  const template = {
    heat_template_version: '2018-08-31',
    resources: Object.fromEntries(resources),
  };
  return JSON.stringify(template);
}

/** A chain of roles as in the paper: web → app → db. */
const chain = {
  db: {
    writes: {
      password: { secret: true },
      address: { value: { get_attr: ['db', 'first_address'] } },
      motd: null,
    },
  },
  app: {
    reads: { 'mysql:password': 'db/password', 'mysql:host': 'db/address' },
    writes: { url: {} },
  },
  web: { reads: { upstream: 'app/url' } },
};

test('a block on the last line of a template has a line break only if the template ends with one', (t) => {
  const { resources } = JSON.parse(templateOf({ db: { writes: { motd: null } } }));
  const text = stringify({ heat_template_version: '2018-08-31', resources });
  const block = `${text}description: |\n  two\n  lines`;
  for (const [end, description] of [
    ['', 'two\nlines'],
    ['\n', 'two\nlines\n'],
  ] as const) {
    t.is(parse(compileTemplate(block + end).template).description, description);
  }
});

test('a chain is compiled: values of guests use the data space, and the rest is unchanged', (t) => {
  const { template, roles, machines, warnings, flows } = compileTemplate(templateOf(chain));
  t.deepEqual(roles, {
    db: { reads: {}, writes: { password: { secret: true }, motd: {} } },
    app: { reads: { 'mysql:password': 'db/password' }, writes: { url: {} } },
    web: { reads: { upstream: 'app/url' }, writes: {} },
  });
  t.deepEqual(warnings, ['no role reads the value db/motd, so the compiled template omits it']);
  t.deepEqual(
    machines.map(({ resource, parameter }) => [resource, parameter]),
    [
      ['db', 'saltbridge_user_data_db'],
      ['app', 'saltbridge_user_data_app'],
      ['web', 'saltbridge_user_data_web'],
    ],
  );
  const plain = parse(template);
  t.false(template.includes('"saltbridge"'));
  t.like(plain.parameters.saltbridge_user_data_web, { type: 'string', hidden: true });
  t.like(plain.resources.web, {
    properties: {
      flavor: 'small',
      user_data: { get_param: 'saltbridge_user_data_web' },
      user_data_format: 'RAW',
    },
  });
  t.is(plain.resources.web.metadata, undefined);
  // The reader of a value from Heat depends on the value's writer. The reader of a guest's value
  // does not.
  const { parts } = plain.resources.app_saltbridge_user_data.properties;
  t.is(parts.length, 2);
  t.deepEqual(parts[0].config.str_replace.params.$saltbridge_values, {
    'db/address': { get_attr: ['db', 'first_address'] },
  });
  t.deepEqual(parts[1], { config: { get_param: 'saltbridge_user_data_app' }, type: 'multipart' });
  t.is(
    drawFlows(['db', 'app', 'web'], flows),
    [
      'flowchart LR',
      '  r0["db"]',
      '  r1["app"]',
      '  r2["web"]',
      '  r0 -->|"db/password (secret)"| r1',
      '  r0 -.->|"db/address"| r1',
      '  r1 -->|"app/url"| r2',
      '',
    ].join('\n'),
  );
});

test('a diamond is compiled', (t) => {
  const { roles } = compileTemplate(
    templateOf({
      top: { writes: { seed: {} } },
      left: { reads: { seed: 'top/seed' }, writes: { part: {} } },
      right: { reads: { seed: 'top/seed' }, writes: { part: {} } },
      bottom: { reads: { left: 'left/part', right: 'right/part' } },
    }),
  );
  t.deepEqual(Object.keys(roles), ['top', 'left', 'right', 'bottom']);
});

const refused: readonly (readonly [string, Readonly<Record<string, RoleText>>, RegExp])[] = [
  [
    'values of a ring of guests',
    {
      a: { reads: { x: 'c/z' }, writes: { x: {} } },
      b: { reads: { x: 'a/x' }, writes: { y: {} } },
      c: { reads: { y: 'b/y' }, writes: { z: {} } },
    },
    /a\/x waits for c\/z waits for b\/y waits for a\/x/,
  ],
  [
    'values of Heat that go round',
    {
      a: { reads: { b: 'b/address' }, writes: { address: { value: { get_attr: ['a', 'ip'] } } } },
      b: { reads: { a: 'a/address' }, writes: { address: { value: { get_attr: ['b', 'ip'] } } } },
    },
    /resource a waits for b\/address waits for resource b waits for a\/address waits for resource a/,
  ],
  [
    'resources that wait for each other already',
    {
      a: { writes: { x: {} }, dependsOn: 'b' },
      b: { reads: { x: 'a/x' }, more: { name: { get_attr: ['a', 'name'] } } },
    },
    /resource a waits for resource b waits for resource a/,
  ],
  [
    'a role that there is not',
    { a: { reads: { x: 'nobody/x' } } },
    /there is no role "nobody"; roles are a$/,
  ],
  [
    'a value that no role writes',
    { a: { reads: { x: 'b/x' } }, b: {} },
    /the role b does not write "x"/,
  ],
  [
    'two writers of one value',
    { a1: { role: 'a', writes: { x: {} } }, a2: { role: 'a', writes: { x: {} } } },
    /several resources write a\/x: a1 and a2/,
  ],
  [
    'a role of two resources that writes',
    { a1: { role: 'a', writes: { x: {} } }, a2: { role: 'a' } },
    /a1 writes a\/x, but a1 and a2 share the role/,
  ],
  [
    'a value of a resource that there is not',
    { a: { writes: { x: { value: { get_attr: ['nope', 'ip'] } } } } },
    /a\/x: unknown resource "nope"/,
  ],
  ['an invalid role name', { a: { role: '../a' } }, /metadata\.saltbridge\.role/],
  ['a field that there is not', { a: { writes: { x: { often: true } } } }, /saltbridge\.writes\.x/],
  ['a name of a value that is a path', { a: { writes: { 'x/y': {} } } }, /names may contain only/],
];

for (const [what, servers, message] of refused) {
  test(`a template with ${what} is refused before anything starts`, (t) => {
    t.throws(() => compileTemplate(templateOf(servers)), { code: 'ERR_DATA_FORM', message });
  });
}

test('all problems of a template are reported at once', (t) => {
  const servers = { a: { reads: { x: 'b/x', y: 'c/y' } } };
  const error = t.throws(() => compileTemplate(templateOf(servers)));
  t.is(error?.message.split('\n').length, 2);
});

test('a writer that names its dependencies is not part of a cycle', (t) => {
  const { roles } = compileTemplate(
    templateOf({
      a: { reads: { y: 'b/y' }, writes: { x: { needs: [] } } },
      b: { reads: { x: 'a/x' }, writes: { y: {} } },
    }),
  );
  t.deepEqual(roles.a?.writes, { x: { needs: [] } });
});

test('other parts of the template stay unchanged', (t) => {
  const text = `# A comment.
heat_template_version: 2018-08-31
parameters:
  flag: { type: string, default: yes }
resources:
  db:
    type: OS::Nova::Server
    metadata:
      other: 010
      saltbridge: { writes: { password: } }
    properties:
      user_data_format: SOFTWARE_CONFIG
      user_data: { get_resource: boot }
      config_drive: on
  boot:
    type: OS::Heat::SoftwareConfig
    properties: { config: "#!/bin/sh\\n" }
  other:
    type: OS::Heat::DeployedServer
    metadata: { saltbridge: { role: app, reads: { password: db/password } } }
`;
  const { template, warnings, machines } = compileTemplate(text);
  for (const line of [
    '# A comment.',
    'default: yes',
    'config_drive: on',
    'other: 010',
    '2018-08-31',
  ]) {
    t.true(template.includes(line), line);
  }
  const plain = parse(template);
  t.is(plain.resources.db.properties.user_data_format, 'SOFTWARE_CONFIG');
  t.deepEqual(plain.resources.db_saltbridge_user_data.properties.parts, [
    { config: { get_resource: 'boot' } },
    { config: { get_param: 'saltbridge_user_data_db' }, type: 'multipart' },
  ]);
  t.deepEqual(warnings, [
    'the resource other accepts no user-data; enrol its machine in another way',
  ]);
  t.deepEqual(machines[1], { resource: 'other', role: 'app' });
});

test('a file that is not a template, or has no role, is refused', (t) => {
  const unusable: readonly (readonly [string, RegExp])[] = [
    ['', /heat_template_version/],
    ['heat_template_version: 2013-05-23\nresources: {}', /2015-10-15 or later/],
    ['heat_template_version: rocky\nresources: []', /resources: must be a map/],
    ['heat_template_version: rocky\nresources: { a: 1 }', /each must be a map/],
    ['heat_template_version: rocky\nresources: { a: {} }', /no resource has a role/],
    ['a: [', /./],
    [`heat_template_version: ${'x'.repeat(600_000)}`, /524288/],
  ];
  for (const [text, message] of unusable) {
    t.throws(() => compileTemplate(text), { code: 'ERR_DATA_FORM', message }, text.slice(0, 80));
  }
});

/** Returns what an XML parser finds in a text: the names of elements, and their texts. */
function parsedXml(text: string): readonly (readonly [name: string, text: string])[] {
  const program =
    'import json, sys, xml.etree.ElementTree as tree\n' +
    'root = tree.fromstring(sys.stdin.buffer.read())\n' +
    'print(json.dumps([[it.tag.split("}")[1], it.text or ""] for it in root.iter()]))';
  const { stdout, stderr } = spawnSync('python3', ['-c', program], { input: text });
  if (stderr.length > 0) throw new Error(stderr.toString('utf8'));
  return JSON.parse(stdout.toString('utf8'));
}

const hasPython = spawnSync('python3', ['--version']).status === 0;
const withPython = testWhere(hasPython, 'the package python3');

withPython('an SVG image contains each role and value as text, whatever their names', (t) => {
  const value = { by: 'guest', secret: false } as const;
  const nasty = `</text><script>alert("1" & '2')</script>\u0000\ud800`;
  const found = parsedXml(
    drawFlowsAsSvg(
      ['db', 'app', nasty],
      [
        { ...value, key: 'db/password', from: 'db', to: 'app', secret: true },
        { ...value, key: 'db/address', from: 'db', to: 'app', by: 'heat' },
        { ...value, key: nasty, from: 'app', to: nasty },
        // Two roles may wait for each other, but not for the same value.
        { ...value, key: 'back', from: nasty, to: 'db' },
      ],
    ),
  );
  const shown = nasty.replace('\u0000\ud800', '\uFFFD\uFFFD');
  t.deepEqual(
    found.filter(([name]) => name === 'text').map(([, text]) => text),
    [
      ...['db', 'back', 'db/password (secret)', 'db/address'],
      ...['app', 'db/password (secret)', 'db/address', shown],
      ...[shown, shown, 'back'],
    ],
  );
  t.deepEqual([...new Set(found.map(([name]) => name))].sort(), [
    'defs',
    'marker',
    'path',
    'rect',
    'svg',
    'text',
    'title',
  ]);
  t.is(found.filter(([name]) => name === 'path').length, 1 + 4);
});

for (const [what, value, expected] of [
  [
    'a list that closes at the indent of its key',
    '[{\n        "network": private\n      }]',
    [{ network: 'private' }],
  ],
  ['a map that closes at the indent of its key', '{\n        a: b\n      }', { a: 'b' }],
  ['entries at the indent of their key', '[\n      a,\n      {b: c}\n      ]', ['a', { b: 'c' }]],
  ['entries left of their key', '{\n  a: [\n1\n]\n}', { a: ['1'] }],
  ['brackets in a block scalar', '|\n        }]\n        ]\n', '}]\n]\n'],
] as const) {
  test(`a template is parsed like PyYAML parses it: ${what}`, (t) => {
    const template = `heat_template_version: 2018-08-31
resources:
  web:
    type: OS::Nova::Server
    metadata:
      saltbridge: {role: web}
    properties:
      flavor: small
      networks: ${value}
      image: debian
`;
    const { properties } = parse(compileTemplate(template).template).resources.web;
    t.deepEqual(
      JSON.parse(JSON.stringify(properties.networks), (_, it) =>
        typeof it === 'number' ? String(it) : it,
      ),
      expected,
    );
    t.is(properties.image, 'debian');
  });
}
