import { runProgram } from './run-program.ts';

/** An account that the name service of this machine knows. */
export interface Account {
  /** Name as the name service spells it. Services such as sssd accept other spellings too. */
  readonly name: string;
  readonly groups: readonly string[];
}

/** Form of names that the program `id` takes for the number of an account. */
const numberForm = /^\+?\d+$/;

/**
 * Looks up an account by its name in the name service of this machine. Returns `undefined` if only
 * PAM knows the account. A name of digits is never taken for the number of an account with another
 * name.
 */
export async function findAccount(user: string, signal: AbortSignal): Promise<Account | undefined> {
  const own = await runProgram('id', ['-un', '--', user], { signal });
  const name = own.output.trim();
  if (own.code !== 0 || name === '' || (numberForm.test(user) && name !== user)) return undefined;
  const found = await runProgram('id', ['-Gn', '--', name], { signal });
  const groups = found.code === 0 ? found.output.trim().split(/\s+/).filter(Boolean) : [];
  return { name, groups };
}
