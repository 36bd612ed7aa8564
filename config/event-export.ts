/**
 * Options under `saltbridge: event_export:`. They define destinations outside this program, which
 * the master sends events to.
 */

import { isIP } from 'node:net';
import { ConfigError } from './config-error.ts';
import {
  absolutePath,
  custom,
  fileNameOf,
  flag,
  headers,
  integer,
  optional,
  parseValue,
  refusals,
  section,
  text,
  textList,
} from './schema.ts';
import {
  entriesOf,
  itemsOf,
  originOfMember,
  type Setting,
  sectionEntries,
  settingsOf,
} from './settings.ts';

/** Options that all kinds of export have. */
interface ExportOptions {
  /**
   * `name`: name of the export. The store records the last sent event under this name. With a new
   * name, the export starts from the oldest stored event.
   */
  readonly name: string;
  /** `match`: globs on tags of events to send. Default: all events. */
  readonly match?: readonly string[];
  /** `exclude`: globs on tags of events not to send. Default: none. */
  readonly exclude?: readonly string[];
}

/** Webhook that receives events as JSON in POST requests. */
export interface WebhookExport extends ExportOptions {
  /** `webhook`: address to post to. */
  readonly webhook: string;
  /** `headers`: headers of each request. Their values are secret. Default: none. */
  readonly headers?: Readonly<Record<string, string>>;
  /** `timeout`: time limit for a response, in seconds. Default: 10. */
  readonly timeout?: number;
  /** `allow_plain_http`: whether `http:` addresses are accepted. Default: false. */
  readonly allowPlainHttp?: boolean;
}

/** File that events are appended to, as lines of JSON. */
export interface FileExport extends ExportOptions {
  /** `file`: absolute path. */
  readonly file: string;
}

/** Export to NATS. Events are published as JSON, on a subject for each tag. */
export interface NatsExport extends ExportOptions {
  /** `nats`: addresses of servers of one cluster, for example `tls://name:port`. */
  readonly nats: readonly string[];
  /** `subject`: prefix of the subjects of all events. Default: `salt.event`. */
  readonly subject: string;
  /**
   * `jetstream`: whether an event is treated as sent only after a JetStream stream has stored it.
   * Default: true.
   */
  readonly jetstream?: boolean;
  /**
   * `ca_file`: CA certificates that verify the servers. Default: the CA certificates of Node.js.
   */
  readonly caFile?: string;
  /** `cert_file` and `key_file`: client certificate for the servers. Default: none. */
  readonly certFile?: string;
  readonly keyFile?: string;
  /** `credentials_file`: file with a JWT and its key, in NATS's format. */
  readonly credentialsFile?: string;
  /** `nkey_file`: file with the seed of an nkey. */
  readonly nkeyFile?: string;
  /** `timeout`: time limit for connecting and for a response, in seconds. Default: 10. */
  readonly timeout?: number;
  /** `allow_plaintext`: whether `nats:` addresses are accepted. Default: false. */
  readonly allowPlaintext?: boolean;
}

/** One destination of events. */
export type EventExport = WebhookExport | FileExport | NatsExport;

type Given = Partial<WebhookExport & FileExport & NatsExport>;

const members = {
  name: optional(text()),
  match: optional(textList()),
  exclude: optional(textList()),
  webhook: optional(text()),
  headers: optional(headers()),
  timeout: optional(integer(1, 300)),
  allowPlainHttp: optional(flag()),
  file: optional(absolutePath()),
  nats: optional(textList()),
  subject: optional(text()),
  jetstream: optional(flag()),
  caFile: optional(absolutePath()),
  certFile: optional(absolutePath()),
  keyFile: optional(absolutePath()),
  credentialsFile: optional(absolutePath()),
  nkeyFile: optional(absolutePath()),
  allowPlaintext: optional(flag()),
};

const exportSection = section(members, {
  expected: 'a map with name and one of webhook, file and nats',
});

/** Options that apply to only one kind of export, by kind. */
const ownMembers = {
  webhook: ['webhook', 'headers', 'timeout', 'allowPlainHttp'],
  file: ['file'],
  nats: [
    ...['nats', 'subject', 'jetstream', 'timeout', 'allowPlaintext'],
    ...['caFile', 'certFile', 'keyFile', 'credentialsFile', 'nkeyFile'],
  ],
} as const;

/** Schema of a list of exports with unique names. */
export const eventExports = custom<readonly EventExport[]>(
  {
    expected:
      'a list of maps, each with a unique name and one of: webhook (an https address) with headers, ' +
      'timeout and allow_plain_http; file (an absolute path); nats (tls addresses) with subject, ' +
      'jetstream, ca_file, cert_file and key_file, credentials_file or nkey_file, timeout and ' +
      'allow_plaintext; match and exclude (globs on tags) are optional',
    accept: (value) => {
      if (!Array.isArray(value)) return undefined;
      const exports = value.map(readExport).filter((item) => item !== undefined);
      const names = new Set(exports.map(({ name }) => name));
      return names.size === value.length ? exports : undefined;
    },
    explain: (setting) => {
      const names = new Set<unknown>();
      const problems = itemsOf(setting).flatMap((item) => {
        const found = explainExport(item);
        const { name } = givenOf(item.value);
        if (name === undefined || !names.has(name)) {
          names.add(name);
          return found;
        }
        return [
          ...found,
          refuseMember(item, ['name', 'the name is already used by another export']),
        ];
      });
      return problems;
    },
  },
  { type: 'array', items: exportSection },
);

/** Names of members in files, mapped to their names in programs. */
const memberNames: ReadonlyMap<string, string> = new Map(
  Object.entries(members).map(([member, schema]) => [fileNameOf(member, schema), member]),
);

function readExport(item: unknown): EventExport | undefined {
  const pairs = entriesOf(item)
    ?.filter(([, found]) => found !== null)
    .map(([name, found]) => [memberNames.get(name) ?? name, found]);
  const given: Given | undefined = pairs && parseValue(exportSection, Object.fromEntries(pairs));
  if (given?.name === undefined || mistakesOf(given).length > 0) return undefined;
  const { webhook, file, nats, name, subject = 'salt.event' } = given;
  if (webhook !== undefined) return { ...given, name, webhook };
  if (file !== undefined) return { ...given, name, file };
  return nats && { ...given, name, nats, subject };
}

/**
 * Option with its problem. `undefined` instead of an option if the problem concerns the whole
 * export.
 */
type Mistake = readonly [member: keyof Given | undefined, problem: string];

/**
 * Returns the problems of an export. Does not check the types of the options.
 * @param set - names of all options that are set, including options that only other kinds of export
 * have
 */
function mistakesOf(given: Given, set: readonly (keyof Given)[] = membersOf(given)): Mistake[] {
  const { name } = given;
  const [kind, ...others] = (['webhook', 'file', 'nats'] as const).filter((it) => set.includes(it));
  const oneKind = 'expected one of webhook, file and nats';
  return [
    ...when(!set.includes('name'), undefined, 'name must be set'),
    ...when(
      name !== undefined && !/^[\w.-]{1,64}$/.test(name),
      'name',
      'expected 1 to 64 letters, digits, _, . and -',
    ),
    ...when(kind === undefined, undefined, oneKind),
    ...others.map((other): Mistake => [other, `${oneKind}, not also ${kind}`]),
    ...(kind === undefined || others.length > 0 ? [] : foreignMembers(set, kind)),
    ...webhookMistakes(given),
    ...natsMistakes(given, set),
  ];
}

function when(isMistaken: boolean, ...mistake: Mistake): Mistake[] {
  return isMistaken ? [mistake] : [];
}

function foreignMembers(set: readonly (keyof Given)[], kind: keyof typeof ownMembers): Mistake[] {
  const own: readonly string[] = ['name', 'match', 'exclude', ...ownMembers[kind]];
  return set
    .filter((member) => !own.includes(member))
    .map((member) => [member, `this option does not apply to an export with ${kind}`]);
}

/** Returns the options that are set, by their names in programs. */
function membersOf(value: unknown): (keyof Given)[] {
  return (sectionEntries(value) ?? [])
    .map(([name]) => memberNames.get(name) ?? name)
    .filter(isMember);
}

function isMember(name: string): name is keyof Given {
  return Object.hasOwn(members, name);
}

function webhookMistakes({ webhook, allowPlainHttp }: Given): Mistake[] {
  const schemes = ['https:', allowPlainHttp === true ? 'http:' : ''];
  const expected =
    'expected an https address without user and password (http requires allow_plain_http)';
  return when(webhook !== undefined && !isAddress(webhook, schemes), 'webhook', expected);
}

function natsMistakes(
  { nats, subject, allowPlaintext }: Given,
  set: readonly (keyof Given)[],
): Mistake[] {
  const schemes = ['tls:', allowPlaintext === true ? 'nats:' : ''];
  const isServer = (server: string): boolean => isAddress(server, schemes) && !isUnnamed(server);
  const isSubject = (name: string): boolean =>
    /^[^\s.*>]+(?:\.[^\s.*>]+)*$/.test(name) && name.length <= 256;
  return [
    ...when(
      nats !== undefined && (nats.length === 0 || !nats.every(isServer)),
      'nats',
      'expected addresses such as tls://name:port with host names, without user and password (nats: requires allow_plaintext)',
    ),
    ...when(
      subject !== undefined && !isSubject(subject),
      'subject',
      'expected up to 256 characters without spaces, * and >',
    ),
    ...when(
      set.includes('certFile') && !set.includes('keyFile'),
      'certFile',
      'must be set together with key_file',
    ),
    ...when(
      set.includes('keyFile') && !set.includes('certFile'),
      'keyFile',
      'must be set together with cert_file',
    ),
    ...when(
      set.includes('credentialsFile') && set.includes('nkeyFile'),
      'nkeyFile',
      'excludes credentials_file: set only one of them',
    ),
  ];
}

/** Returns all problems of an export, each with its own location. */
function explainExport(item: Setting): readonly ConfigError[] {
  const wrong = refusals(exportSection, item);
  if (entriesOf(item.value) === undefined) return wrong;
  const mistakes = mistakesOf(givenOf(item.value), membersOf(item.value));
  return [...wrong, ...mistakes.map((mistake) => refuseMember(item, mistake))];
}

/** Returns the options that have valid values. */
function givenOf(value: unknown): Given {
  const read = (entriesOf(value) ?? []).map(([name, found]) =>
    parseValue(exportSection, { [memberNames.get(name) ?? name]: found }),
  );
  return Object.assign({}, ...read);
}

function refuseMember(item: Setting, [member, problem]: Mistake): ConfigError {
  if (member === undefined) return new ConfigError('ERR_OPTION_TYPE', item.origin, problem);
  const name = fileNameOf(member, members[member]);
  const found = settingsOf(item).find(([given]) => given === name || given === member)?.[1];
  const origin = found?.origin ?? originOfMember(item.origin, name);
  return new ConfigError('ERR_OPTION_TYPE', origin, problem);
}

/**
 * Whether a TLS server is given by its IP address. The NATS client can verify a certificate only
 * for a host name. Without a host name, the client would verify the name `localhost`.
 */
function isUnnamed(server: string): boolean {
  const { protocol, hostname } = new URL(server);
  return protocol === 'tls:' && isIP(hostname.replace(/^\[|\]$/g, '')) !== 0;
}

/**
 * Whether the text is an address with an accepted scheme and without credentials. Addresses are
 * displayed, so they must not contain secrets.
 */
function isAddress(address: string, schemes: readonly string[]): boolean {
  if (!URL.canParse(address)) return false;
  const { protocol, username, password } = new URL(address);
  return schemes.includes(protocol) && username === '' && password === '';
}
