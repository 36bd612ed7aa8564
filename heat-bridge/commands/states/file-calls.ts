/** Calls of state functions that manage files and links. */

import path from 'node:path';
import { findInterpretedText } from '#minion-protocol';
import { utf8Of } from './file-content.ts';
import type { PackageCall } from './package-calls.ts';
import type { ConfigFile } from './state-config.ts';

type FileCall = Omit<PackageCall, 'names'>;

export function fileCalls(file: ConfigFile): readonly FileCall[] {
  const { path: name, content, selinux } = file;
  const common = {
    name,
    makedirs: true,
    ...rightsOf(file),
    ...(selinux === undefined ? {} : { selinux: { ...selinux } }),
  };
  switch (content.kind) {
    case 'link':
      return linkCalls(file, content.target);
    case 'url': {
      const args = { ...common, source: content.url, skip_verify: true, show_changes: false };
      return [{ fun: 'file.managed', args }];
    }
    case 'bytes': {
      const text = utf8Of(content.bytes);
      if (text !== undefined && isExactAsContents(text)) {
        const contents = {
          contents: text,
          contents_newline: text.endsWith('\n'),
          allow_empty: true,
          // Do not report changes, because they would put the content of files into the job cache.
          show_changes: false,
        };
        return [{ fun: 'file.managed', args: { ...common, ...contents } }];
      }
      // Set the permissions first, so that no other user can read the content.
      return [
        { fun: 'file.managed', args: { ...common, replace: false } },
        {
          fun: 'file.decode',
          args: {
            name,
            encoded_data: content.bytes.toString('base64'),
            encoding_type: 'base64',
            checksum: 'sha256',
          },
        },
      ];
    }
  }
}

/**
 * Characters that `file.managed` would change: control characters, and the line ends U+2028 and
 * U+2029. Tabs and line feeds are excluded.
 */
const otherLineEnds = /(?![\n\t])[\p{Cc}\p{Zl}\p{Zp}]/u;

/** Whether `file.managed` writes exactly this text if it is passed as `contents`. */
function isExactAsContents(text: string): boolean {
  return !otherLineEnds.test(text) && findInterpretedText(text, 'argument') === undefined;
}

function linkCalls(file: ConfigFile, target: string): FileCall[] {
  const { path: name } = file;
  const link = { name, target, makedirs: true, backupname: `${name}.bak` };
  const calls = [{ fun: 'file.symlink', args: link }];
  const rights = rightsOf(file);
  if (Object.keys(rights).length === 0) return calls;
  const targetPath = path.posix.resolve(path.posix.dirname(name), target);
  const args = { name: targetPath, replace: false, create: false, ...rights };
  return [...calls, { fun: 'file.managed', args }];
}

/** Returns the arguments of `file.managed` for the mode, owner and group of a file. */
function rightsOf({ mode, owner, group }: ConfigFile): Readonly<Record<string, number | string>> {
  return {
    ...(mode === undefined ? {} : { mode }),
    ...(owner === undefined ? {} : { user: owner }),
    ...(group === undefined ? {} : { group }),
  };
}
