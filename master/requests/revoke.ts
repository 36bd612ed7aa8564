import { decide, type Policy } from '../../acl/index.ts';
import type { KeyStore } from '../keys/key-store.ts';
import { type Handler, send } from './request.ts';

/**
 * `revoke_auth`: a minion gives its own key up, where `allow_minion_key_revoke` or a rule permits
 * it. Salt gives the load back where nothing does [WIRE 9.2].
 */
export function revokeHandler(keys: KeyStore, policy: () => Policy): Handler {
  return async ({ minionId, isProven, load }) => {
    if (!isProven || minionId === undefined) return send(load);
    const subject = { kind: 'minion', id: minionId } as const;
    const resource = { operation: 'revoke' };
    const { effect } = decide({ subject, action: 'key', resource }, policy());
    if (effect === 'deny') return send(load);
    await keys.delete(minionId);
    return send(true);
  };
}
