# Newel where Nix is: nix run . -- demo, nix develop. nixpkgs is the one of the flake registry of this machine.
# The packages come from the index that uv is configured for, as in every installation: nixpkgs has other versions of them.
{
  description = "A coding agent with a small heart";

  inputs.nixpkgs.url = "nixpkgs";

  outputs =
    { self, nixpkgs }:
    let
      systems = [
        "x86_64-linux"
        "aarch64-linux"
        "x86_64-darwin"
        "aarch64-darwin"
      ];
      each = make: nixpkgs.lib.genAttrs systems (system: make nixpkgs.legacyPackages.${system});
      tools = pkgs: [
        pkgs.python313
        pkgs.uv
        pkgs.git
        pkgs.openssh
        pkgs.ripgrep
      ] ++ pkgs.lib.optional pkgs.stdenv.isLinux pkgs.bubblewrap;
    in
    {
      packages = each (pkgs: {
        default = pkgs.writeShellApplication {
          name = "newel";
          runtimeInputs = tools pkgs;
          text = ''
            exec uv tool run --python python3.13 --constraints ${self}/packaging/requirements.txt --from ${self} newel "$@"
          '';
        };
      });
      devShells = each (pkgs: { default = pkgs.mkShell { packages = tools pkgs; }; });
    };
}
