import type { MasterConfig } from '../config/options.ts';
import type { KeyStore } from '../keys/key-store.ts';
import { type Handler, send } from './request.ts';

/**
 * `revoke_auth`: a minion gives its own key up, where `allow_minion_key_revoke` permits it. Salt
 * gives the load back where it does not [WIRE 9.2].
 */
export function revokeHandler(
  keys: KeyStore,
  rules: Pick<MasterConfig, 'allowMinionKeyRevoke'>,
): Handler {
  return async ({ minionId, isProven, load }) => {
    if (!rules.allowMinionKeyRevoke || !isProven || minionId === undefined) return send(load);
    await keys.delete(minionId);
    return send(true);
  };
}
