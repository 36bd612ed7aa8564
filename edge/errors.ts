/** Errors of sites and of their centre. */

import { type ErrorEntry, SaltbridgeError } from '#runtime';

/** Descriptions of all error codes. docs/errors.md lists them. */
export const edgeErrors = {
  ERR_SITE_NOT_JOINED: {
    meaning: 'This master is configured as a site, but it has not joined a centre yet.',
    action:
      'Create a ticket at the centre (`saltbridge site ticket NAME`), and run `saltbridge site join`.',
  },
  ERR_SITE_TICKET: {
    meaning: 'The ticket is malformed, expired, used, or from another centre.',
    action: 'Create a new ticket at the centre.',
  },
  ERR_SITE_UNKNOWN: {
    meaning: 'The centre has no site with this name.',
    action: 'Use a name that `saltbridge site list` shows.',
  },
  ERR_SITE_REFUSED: {
    meaning: 'The centre refused the connection of a site: its key is unknown or revoked.',
    action: 'Check the state of the site at the centre; a revoked site needs a new ticket.',
  },
  ERR_SITE_LINK: {
    meaning: 'The site is not connected to its centre, or it lost the connection.',
    action: 'Retry when the site is connected again; the site stores its log until then.',
    retry: true,
  },
  ERR_SITE_MESSAGE: {
    meaning: 'A message between a site and its centre is malformed, too large, or not permitted.',
    action:
      'Update saltbridge on the side with the older version; if the versions are equal, report an issue.',
  },
  ERR_SITE_CLOCK: {
    meaning: 'The clock of the site is too far ahead of the clock of the centre.',
    action: 'Correct the clock of the site.',
    retry: true,
  },
  ERR_SITE_STATE: {
    meaning: 'The files or rows of a site are damaged.',
    action: 'Join the site again with a new ticket.',
  },
  ERR_REHOME_STATEMENT: {
    meaning: 'A statement about the next centre of sites is malformed or was altered.',
    action: 'Copy the whole output of `saltbridge site rehome sign`.',
  },
  ERR_REHOME_KEYS: {
    meaning: 'Too few root keys of the present centre signed the statement.',
    action:
      'Add signatures with `saltbridge site rehome cosign`, or sign with the present root keys.',
  },
  ERR_REHOME_CENTRE: {
    meaning: 'The statement or the list of sites is from another centre.',
    action: 'Pass the statement of the centre to which the site belongs.',
  },
  ERR_REHOME_SITE: {
    meaning: 'The statement does not name this site.',
    action: 'Sign a statement that names the site.',
  },
  ERR_REHOME_EXPIRED: {
    meaning: 'The statement has expired, or its time of issue is in the future.',
    action:
      'Correct the clocks of the machine that signs, the centre and the site. Sign a new statement, and restart the master of the site.',
  },
  ERR_REHOME_OLD: {
    meaning: 'The site has already accepted a later statement.',
    action:
      'Pass the latest statement, or sign a new one. If the accepted statement is from the future, correct the clocks, restart the master of the site, and then sign a new one.',
  },
  ERR_SITE_SECRETS: {
    meaning:
      'The secrets of a site are malformed, too large, readable by other users, or not sealed to the site by its centre.',
    action: 'Correct the file of the site in the directory `saltbridge: sites: secrets`.',
  },
  ERR_BUNDLE_SIGNATURE: {
    meaning: 'The metadata of a bundle are altered, or signed by too few keys.',
    action: 'Publish the release again, and sign it with the keys of the roles.',
  },
  ERR_BUNDLE_CENTRE: {
    meaning: 'The bundle or its metadata belong to a different centre than the site.',
    action: 'Check the address of the centre; to change the centre, join the new centre.',
  },
  ERR_BUNDLE_OLD: {
    meaning: 'The bundle or its metadata are older than the bundle of the site.',
    action: 'Publish the content again with a higher version.',
  },
  ERR_BUNDLE_EXPIRED: {
    meaning: 'The metadata of the bundle have expired, by the clock of the site.',
    action:
      'Sign the metadata again, or correct the clocks of the centre and the site, and restart the master of the site.',
    retry: true,
  },
  ERR_BUNDLE_CONTENT: {
    meaning: 'A part of a bundle is missing, too large, or does not match its digest.',
    action: 'Publish the release again; check the caches between the centre and the site.',
    retry: true,
  },
  ERR_BUNDLE_PATH: {
    meaning: 'A bundle names a path outside its own directory.',
    action: 'Correct the configuration directory of the release.',
  },
  ERR_BUNDLE_VERSION: {
    meaning: 'The bundle requires a later version of saltbridge than the site has.',
    action: 'Update saltbridge at the site.',
  },
  ERR_BUNDLE_CHECK: {
    meaning: 'The check of a bundle failed at the site. The former bundle stays in use.',
    action: 'Correct the option, pillar or policy that the message names, and publish again.',
  },
  ERR_BUNDLE_KEYS: {
    meaning: 'A key file of the releases is missing, malformed, or belongs to another centre.',
    action: 'Pass the key files that `saltbridge site keys` created.',
  },
  ERR_RELEASE: {
    meaning: 'The release does not exist, or its state does not permit the operation.',
    action: 'Check the state of the release with `saltbridge site list`.',
  },
  ERR_ORDER_INVALID: {
    meaning: 'An order is malformed, or its target or function cannot be used in an order.',
    action: 'Correct the order.',
  },
  ERR_ORDER_DENIED: {
    meaning: 'No rule permits the caller to issue this order.',
    action: 'Ask the operator for a rule; `saltbridge acl explain` shows similar rules.',
  },
  ERR_ORDER_UNKNOWN: {
    meaning: 'There is no order with this id.',
    action: 'Use an id that `saltbridge site order` printed.',
  },
} as const satisfies Readonly<Record<string, ErrorEntry>>;

export type EdgeErrorCode = keyof typeof edgeErrors;

/** Error of a site or of its centre. */
export class EdgeError extends SaltbridgeError<EdgeErrorCode> {}
