/** `saltbridge: event_export:`: where events go besides readers of the bus. */

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

/** One receiver of events. */
export type EventExport = WebhookExport | FileExport;

type Given = Partial<WebhookExport & FileExport>;

const table: SectionTable<Given> = {
  name: { name: 'name', kind: text },
  match: { name: 'match', kind: textList },
  exclude: { name: 'exclude', kind: textList },
  webhook: { name: 'webhook', kind: text },
  headers: { name: 'headers', kind: headers },
  timeout: { name: 'timeout', kind: integer(1, 300) },
  allowPlainHttp: { name: 'allow_plain_http', kind: flag },
  file: { name: 'file', kind: absolutePath },
};

/** Each with a name of its own. */
export const eventExports: OptionKind<readonly EventExport[]> = {
  expected:
    'a list of maps, each with a name of its own and either webhook (https), headers, timeout and ' +
    'allow_plain_http, or file (absolute), and with match and exclude (globs on tags)',
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

function readExport(item: unknown): EventExport | undefined {
  // Items of lists have the names of files; a program has those of members.
  const pairs = entriesOf(item)?.map(([name, found]): [string, unknown] => [
    name === 'allow_plain_http' ? 'allowPlainHttp' : name,
    found,
  ]);
  const {
    name,
    webhook,
    file,
    headers: sent,
    timeout,
    allowPlainHttp,
    ...rest
  } = (pairs && readSection(table, Object.fromEntries(pairs))) ?? {};
  if (name === undefined || !/^[\w.-]{1,64}$/.test(name)) return undefined;
  if (file !== undefined) {
    const isOther = webhook !== undefined || sent !== undefined || timeout !== undefined;
    return isOther ? undefined : { name, file, ...rest };
  }
  if (webhook === undefined || !URL.canParse(webhook)) return undefined;
  const { protocol, username, password } = new URL(webhook);
  const isFine = protocol === 'https:' || (protocol === 'http:' && allowPlainHttp === true);
  if (!isFine || username !== '' || password !== '') return undefined;
  return {
    ...{ name, webhook, ...rest },
    ...(sent === undefined ? {} : { headers: sent }),
    ...(timeout === undefined ? {} : { timeout }),
  };
}
