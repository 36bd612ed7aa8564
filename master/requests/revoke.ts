import type { KeyStore } from '../keys/key-store.ts';
import type { PolicyGate } from '../policy/gate.ts';
import { type Handler, send } from './request.ts';

/**
 * `revoke_auth`: a minion gives its own key up, where `allow_minion_key_revoke` or a rule permits
 * it. Salt gives the load back where nothing does [WIRE 9.2].
 */
export function revokeHandler(keys: KeyStore, gate: PolicyGate): Handler {
  return async ({ minionId, isProven, load }) => {
    if (!isProven || minionId === undefined) return send(load);
    const subject = { kind: 'minion', id: minionId } as const;
    const resource = { operation: 'revoke' };
    const { effect } = gate.decide({ subject, action: 'key', resource });
    if (effect === 'deny') return send(load);
    await keys.exclusive(minionId, () => keys.delete(minionId));
    return send(true);
  };
}
