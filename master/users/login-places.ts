import type { ApiAcl } from '#config';
import { addressSet } from '#runtime';

/** Function that returns whether a user may log in from an address. */
export type AddressCheck = (user: string, address: string) => boolean;

/**
 * Returns a function that checks log-ins against `api_acl` [salt/netapi/rest_cherrypy/app.py,
 * salt_api_acl_tool].
 * @param acl - value of `api_acl`. With `undefined`, all users may log in from any address
 */
export function createAddressCheck(acl: ApiAcl | undefined): AddressCheck {
  if (acl === undefined) return () => true;
  const places = new Map(
    Object.entries(acl.users).map(([user, list]) => {
      const named = addressSet(list.filter((address) => address !== '*'));
      return [user, list.includes('*') ? () => true : named.has] as const;
    }),
  );
  return (user, address) => (places.get(user) ?? places.get('*'))?.(address) ?? false;
}
