/** `saltbridge: event_export:`: where events go besides readers of the bus. */

import { isIP } from 'node:net';
import {
  absolutePath,
  entriesOf,
  flag,
  headers,
  integer,
  type OptionKind,
  readSection,
  type SectionTable,
  text,
  textList,
  toPlain,
} from './option-kinds.ts';

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

const table: SectionTable<Given> = {
  name: { name: 'name', kind: text },
  match: { name: 'match', kind: textList },
  exclude: { name: 'exclude', kind: textList },
  webhook: { name: 'webhook', kind: text },
  headers: { name: 'headers', kind: headers },
  timeout: { name: 'timeout', kind: integer(1, 300) },
  allowPlainHttp: { name: 'allow_plain_http', kind: flag },
  file: { name: 'file', kind: absolutePath },
  nats: { name: 'nats', kind: textList },
  subject: { name: 'subject', kind: text },
  jetstream: { name: 'jetstream', kind: flag },
  caFile: { name: 'ca_file', kind: absolutePath },
  certFile: { name: 'cert_file', kind: absolutePath },
  keyFile: { name: 'key_file', kind: absolutePath },
  credentialsFile: { name: 'credentials_file', kind: absolutePath },
  nkeyFile: { name: 'nkey_file', kind: absolutePath },
  allowPlaintext: { name: 'allow_plaintext', kind: flag },
};

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
export const eventExports: OptionKind<readonly EventExport[]> = {
  expected:
    'a list of maps, each with a name of its own and either webhook (https), headers, timeout and ' +
    'allow_plain_http, or file (absolute), or nats (tls, by name), subject, jetstream, ca_file, cert_file ' +
    'with key_file, credentials_file or nkey_file, timeout and allow_plaintext, and with match ' +
    'and exclude (globs on tags)',
  isPath: false,
  parse: (value) => {
    const list = toPlain(value);
    if (!Array.isArray(list)) return undefined;
    const read = list.map(readExport);
    const exports = read.filter((item) => item !== undefined);
    const names = new Set(exports.map(({ name }) => name));
    return names.size === list.length ? exports : undefined;
  },
};

/** Items of lists have the names of files; a program has those of members. */
const memberNames: ReadonlyMap<string, string> = new Map(
  Object.entries(table).map(([member, { name }]) => [name, member]),
);

function readExport(item: unknown): EventExport | undefined {
  const pairs = entriesOf(item)?.map(([name, found]) => [memberNames.get(name) ?? name, found]);
  const given = pairs && readSection(table, Object.fromEntries(pairs));
  if (given?.name === undefined || !/^[\w.-]{1,64}$/.test(given.name)) return undefined;
  const { webhook, file, nats, name } = given;
  if (webhook !== undefined && hasOnly(given, 'webhook')) {
    const isFine = isAddress(webhook, ['https:', given.allowPlainHttp === true ? 'http:' : '']);
    return isFine ? { ...given, name, webhook } : undefined;
  }
  if (file !== undefined && hasOnly(given, 'file')) return { ...given, name, file };
  if (nats === undefined || nats.length === 0 || !hasOnly(given, 'nats')) return undefined;
  const { subject = 'salt.event', certFile, keyFile, credentialsFile, nkeyFile } = given;
  const schemes = ['tls:', given.allowPlaintext === true ? 'nats:' : ''];
  const isFine =
    nats.every((server) => isAddress(server, schemes) && !isUnnamed(server)) &&
    /^[^\s.*>]+(?:\.[^\s.*>]+)*$/.test(subject) &&
    subject.length <= 256 &&
    (certFile === undefined) === (keyFile === undefined) &&
    (credentialsFile === undefined || nkeyFile === undefined);
  return isFine ? { ...given, name, nats, subject } : undefined;
}

function hasOnly(given: Given, kind: keyof typeof ownMembers): boolean {
  const own: readonly string[] = ['name', 'match', 'exclude', ...ownMembers[kind]];
  return Object.keys(given).every((member) => own.includes(member));
}

/** The client holds a certificate against a name alone: against `localhost` where there is none. */
function isUnnamed(server: string): boolean {
  const { protocol, hostname } = new URL(server);
  // protection: nats-by-name
  return protocol === 'tls:' && isIP(hostname.replace(/^\[|\]$/g, '')) !== 0;
}

/** Secrets do not belong in addresses, which are shown. */
function isAddress(address: string, schemes: readonly string[]): boolean {
  if (!URL.canParse(address)) return false;
  const { protocol, username, password } = new URL(address);
  return schemes.includes(protocol) && username === '' && password === '';
}
