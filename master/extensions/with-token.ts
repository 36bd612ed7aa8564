import type { ExtensionHost, TokenHolder } from './extension.ts';

/**
 * Calls `work` with the subject and the policy of a token. They are kept current until `work` ends.
 * @param address - address of the client that sent the token, if known
 * @throws AuthenticationError, and the errors of `work`
 */
export async function withToken<T>(
  host: Pick<ExtensionHost, 'holdToken'>,
  { token, address }: { readonly token: string; readonly address?: string },
  work: (holder: TokenHolder) => Promise<T>,
): Promise<T> {
  const holder = await host.holdToken(token, address);
  try {
    return await work(holder);
  } finally {
    holder.stop();
  }
}
