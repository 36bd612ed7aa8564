/** Checks the form of credentials: two short texts and the name of a back end [THREATS A-04, C-14]. */

const maxName = 256;
const maxPassword = 1024;
/** Tokens of identity providers with many groups. */
const maxToken = 16_384;

/** Whether both have the form that back ends may be asked about. Anything may be given. */
export function areCredentials(
  { username, password }: { readonly username: unknown; readonly password: unknown },
  eauth: string,
): boolean {
  return isUserName(username) && isPassword(password, eauth === 'jwt' ? maxToken : maxPassword);
}

/**
 * Whether a text can be the name of a user: nothing in it ends a field, a line or an option of the
 * files and programs that it is looked up in.
 */
function isUserName(name: unknown): name is string {
  return (
    typeof name === 'string' &&
    name.length > 0 &&
    name.length <= maxName &&
    name === name.trim() &&
    !name.startsWith('-') &&
    !hasControl(name)
  );
}

function isPassword(password: unknown, maxLength: number): boolean {
  return (
    typeof password === 'string' &&
    password.length > 0 &&
    password.length <= maxLength &&
    !/[\0\r\n]|\p{Cs}/u.test(password)
  );
}

function hasControl(text: string): boolean {
  return /[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}]/u.test(text);
}
