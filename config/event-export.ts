/** `saltbridge: event_export:`: where events go besides readers of the bus. */

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

/** What an export may say, whatever its kind. */
interface ExportOptions {
  /** `name`: names its cursor in the store; another name begins anew. */
  readonly name: string;
  /** `match`: globs on tags. Default: all events. */
  readonly match?: readonly string[];
  /** `exclude`: globs on tags that are left out. Default: none. */
  readonly exclude?: readonly string[];
}

/** Events are posted as JSON. */
export interface WebhookExport extends ExportOptions {
  /** `webhook`: the address. */
  readonly webhook: string;
  /** `headers`: sent with each request. Default: none. Secret. */
  readonly headers?: Readonly<Record<string, string>>;
  /** `timeout`: seconds for an answer. Default 10. */
  readonly timeout?: number;
  /** `allow_plain_http`: whether `http:` will do. Default false. */
  readonly allowPlainHttp?: boolean;
}

/** Events are appended as lines of JSON. */
export interface FileExport extends ExportOptions {
  /** `file`: absolute path. */
  readonly file: string;
}

/** Events are published as JSON. */
export interface NatsExport extends ExportOptions {
  /** `nats`: addresses of servers of one cluster, `tls://name:port`. */
  readonly nats: readonly string[];
  /** `subject`: what the subjects of all events begin with. Default `salt.event`. */
  readonly subject: string;
  /** `jetstream`: whether a stream must have stored an event. Default true. */
  readonly jetstream?: boolean;
  /** `ca_file`: certificates that the servers' are checked by. Default: those of Node.js. */
  readonly caFile?: string;
  /** `cert_file` and `key_file`: a certificate to show to the servers. Default: none. */
  readonly certFile?: string;
  readonly keyFile?: string;
  /** `credentials_file`: a JWT and its key, as NATS writes them. */
  readonly credentialsFile?: string;
  /** `nkey_file`: the seed of a key. */
  readonly nkeyFile?: string;
  /** `timeout`: seconds to connect, and for an answer. Default 10. */
  readonly timeout?: number;
  /** `allow_plaintext`: whether `nats:` will do. Default false. */
  readonly allowPlaintext?: boolean;
}

/** One receiver of events. */
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

/** The members that only one kind of receiver has. */
const ownMembers = {
  webhook: ['webhook', 'headers', 'timeout', 'allowPlainHttp'],
  file: ['file'],
  nats: [
    ...['nats', 'subject', 'jetstream', 'timeout', 'allowPlaintext'],
    ...['caFile', 'certFile', 'keyFile', 'credentialsFile', 'nkeyFile'],
  ],
} as const;

/** Each with a name of its own. */
export const eventExports = custom<readonly EventExport[]>(
  {
    expected:
      'a list of maps, each with a name of its own and either webhook (https), headers, timeout and ' +
      'allow_plain_http, or file (absolute), or nats (tls, by name), subject, jetstream, ca_file, cert_file ' +
      'with key_file, credentials_file or nkey_file, timeout and allow_plaintext, and with match ' +
      'and exclude (globs on tags)',
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
        return [...found, refuseMember(item, ['name', 'another export has it'])];
      });
      return problems;
    },
  },
  { type: 'array', items: exportSection },
);

/** Items of lists have the names of files; a program has those of members. */
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

/** A member, and what is wrong with it; without a member it is the export. */
type Mistake = readonly [member: keyof Given | undefined, problem: string];

/**
 * What is wrong with an export beyond the kinds of its members.
 * @param set members that are there, also those that are not of their kind
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
    .map((member) => [member, `an export with ${kind} has no such option`]);
}

/** From a file, or from a program. */
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
    'expected an address with https (http: with allow_plain_http), without user and password';
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
      'expected addresses such as tls://name:port, by name (nats: with allow_plaintext), without user and password',
    ),
    ...when(
      subject !== undefined && !isSubject(subject),
      'subject',
      'expected up to 256 characters, without spaces, * and >',
    ),
    ...when(set.includes('certFile') && !set.includes('keyFile'), 'certFile', 'needs key_file'),
    ...when(set.includes('keyFile') && !set.includes('certFile'), 'keyFile', 'needs cert_file'),
    ...when(
      set.includes('credentialsFile') && set.includes('nkeyFile'),
      'nkeyFile',
      'expected this or credentials_file, not both',
    ),
  ];
}

/** All that is wrong with an item, each by its own place. */
function explainExport(item: Setting): readonly ConfigError[] {
  const wrong = refusals(exportSection, item);
  if (entriesOf(item.value) === undefined) return wrong;
  const mistakes = mistakesOf(givenOf(item.value), membersOf(item.value));
  return [...wrong, ...mistakes.map((mistake) => refuseMember(item, mistake))];
}

/** The members that are right. */
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

/** The client holds a certificate against a name alone: against `localhost` where there is none. */
function isUnnamed(server: string): boolean {
  const { protocol, hostname } = new URL(server);
  return protocol === 'tls:' && isIP(hostname.replace(/^\[|\]$/g, '')) !== 0;
}

/** Secrets do not belong in addresses, which are shown. */
function isAddress(address: string, schemes: readonly string[]): boolean {
  if (!URL.canParse(address)) return false;
  const { protocol, username, password } = new URL(address);
  return schemes.includes(protocol) && username === '' && password === '';
}
