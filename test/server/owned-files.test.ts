/** Files and directories that root creates for the account of a master. */

import {
  chmodSync,
  chownSync,
  closeSync,
  constants,
  linkSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import path from 'node:path';
import type { ExecutionContext } from 'ava';
import { ProcessError } from '#server/process/errors.ts';
import { createOwnedDirectory, openOwnedFile } from '#server/process/owned-files.ts';
import { testWhere } from '../helpers/needs.ts';
import { temporaryDirectory } from '../helpers/temporary-directory.ts';

const asRoot = testWhere(process.getuid?.() === 0, 'root');
const account = { name: 'nobody', uid: 65534, gid: 65534 } as const;
const refused = { instanceOf: ProcessError, code: 'ERR_USER' } as const;

interface Places {
  /** Directory of root in which the account cannot create anything. */
  readonly ofRoot: string;
  /** Directory of the account. */
  readonly ofAccount: string;
}

function makePlaces(t: ExecutionContext): Places {
  const directory = temporaryDirectory(t);
  chmodSync(directory, 0o755);
  const [ofRoot, ofAccount] = [path.join(directory, 'root'), path.join(directory, 'account')];
  mkdirSync(ofRoot, 0o755);
  mkdirSync(ofAccount, 0o755);
  chownSync(ofAccount, account.uid, account.gid);
  return { ofRoot, ofAccount };
}

const append = constants.O_WRONLY | constants.O_APPEND;

asRoot('new files belong to the account, in its own directory and in one of root', (t) => {
  for (const directory of Object.values(makePlaces(t))) {
    createOwnedDirectory(path.join(directory, 'log', 'more'), 0o750, account);
    const file = path.join(directory, 'file');
    closeSync(openOwnedFile(file, append, 0o640, account));
    for (const made of [file, path.join(directory, 'log'), path.join(directory, 'log', 'more')]) {
      t.is(statSync(made).uid, account.uid, made);
      t.is(statSync(made).gid, account.gid, made);
    }
  }
  t.is(process.geteuid?.(), 0);
  t.is(process.getegid?.(), 0);
});

asRoot('an existing file of root stays a file of root', (t) => {
  const { ofRoot } = makePlaces(t);
  const file = path.join(ofRoot, 'log');
  writeFileSync(file, 'x');
  closeSync(openOwnedFile(file, append, 0o640, account));
  t.is(statSync(file).uid, 0);
});

asRoot('a link in a directory of the account does not make root create or open a file', (t) => {
  const { ofRoot, ofAccount } = makePlaces(t);
  const secret = path.join(ofRoot, 'secret');
  writeFileSync(secret, 'secret', { mode: 0o600 });
  symlinkSync(path.join(ofRoot, 'new'), path.join(ofAccount, 'dangling'));
  symlinkSync(secret, path.join(ofAccount, 'secret'));
  symlinkSync(ofRoot, path.join(ofAccount, 'directory'));
  symlinkSync(path.join(ofAccount, 'directory'), path.join(ofRoot, 'indirect'));
  for (const name of ['dangling', 'secret', 'directory/new', '../root/indirect/new']) {
    const file = path.resolve(ofAccount, name);
    t.throws(() => openOwnedFile(file, append, 0o640, account), refused, name);
  }
  t.deepEqual(readdirSync(ofRoot).sort(), ['indirect', 'secret']);
  t.is(readFileSync(secret, 'utf8'), 'secret');
  t.is(statSync(secret).uid, 0);
});

asRoot('a link in a directory of the account does not make root create a directory', (t) => {
  const { ofRoot, ofAccount } = makePlaces(t);
  symlinkSync(ofRoot, path.join(ofAccount, 'directory'));
  const directory = path.join(ofAccount, 'directory', 'new');
  t.throws(() => createOwnedDirectory(directory, 0o700, account), refused);
  t.deepEqual(readdirSync(ofRoot), []);
});

asRoot('a second name of a file does not make root open it', (t) => {
  const { ofRoot, ofAccount } = makePlaces(t);
  const secret = path.join(ofRoot, 'secret');
  writeFileSync(secret, 'secret', { mode: 0o600 });
  chownSync(ofAccount, 0, 0);
  chmodSync(ofAccount, 0o1777);
  const file = path.join(ofAccount, 'log');
  linkSync(secret, file);
  t.throws(() => openOwnedFile(file, append, 0o640, account), refused);
});
